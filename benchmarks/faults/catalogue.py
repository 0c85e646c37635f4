"""All faults: what happens, and what has to come of it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from .training_run import TrainingRun, kill, wait

__all__ = ["CARRIERS", "FAULTS", "Expected", "Fault"]

CARRIERS = {
    "tcp": "AllReduce(communicator='tcp')",
    "horovod": "AllReduce(communicator='horovod')",
    "collective": "AllReduce(communicator='collective')",
    "servers over tcp": "PartitionedPS(communicator='tcp', min_shard_bytes=0)",
}
"""What moves the values of a training from worker to worker, and a strategy that uses it."""

Doing = Callable[[TrainingRun], None]
Outcome = Literal["goes on", "ends", "restarts"]


@dataclass(frozen=True)
class Expected:
    """What has to come of a fault.

    Attributes:
        outcome: Training goes on undisturbed, ends, or is started again and goes on from its checkpoint.
        within_s: The most seconds from the fault to the end, to the announced restart, or to the next steps.
        exit_code: Of the run, if the fault ends it.
        blamed: Whose worker is named as the first to fail: ``"chief"``, ``"another"``, or nobody's.
        says: What the console tells, as a pattern; ``{host}`` and ``{rank}`` are those of the other worker.

    """

    outcome: Outcome
    within_s: float
    exit_code: int = 0
    blamed: str | None = None
    says: str = ""


@dataclass(frozen=True)
class Fault:
    """Something that breaks.

    Attributes:
        name: For tables and options.
        do: Has it happen to a training; returns when it has, at the end of what lasts for some time.
        expected: What has to come of it.
        is_cheap: Whether a trial is short, so that it is repeated often.
        at_start: It happens while workers start, not between steps.
        prepare: What is done before the start.
        options: Of `autodist run`.
        every: Steps from one checkpoint to the next.

    """

    name: str
    do: Doing
    expected: Expected
    is_cheap: bool = True
    at_start: bool = False
    prepare: Doing = field(default=lambda run: None)
    options: tuple[str, ...] = ()
    every: int = 5


# --- processes


def _kill(who: str) -> Doing:
    return lambda run: kill(run.worker(getattr(run, who)))


def _stop_another(run: TrainingRun) -> None:
    kill(run.worker(run.another), signal.SIGSTOP)


def _stop_another_shortly(run: TrainingRun) -> None:
    worker = run.worker(run.another)
    kill(worker, signal.SIGSTOP)
    time.sleep(5.0)
    kill(worker, signal.SIGCONT)


def _kill_agent(run: TrainingRun) -> None:
    kill(run.agent(run.another))


def _signal_launcher(number: int) -> Doing:
    return lambda run: kill(run.launcher(), number)


def _stop_launcher(run: TrainingRun) -> None:
    launcher = run.launcher()
    kill(launcher, signal.SIGSTOP)
    time.sleep(10.0)
    for pid in (launcher, run.process.pid):  # nsenter stops itself with what it waits for
        kill(pid, signal.SIGCONT)


def _order(text: str) -> Doing:
    return lambda run: run.order(run.another, text)


# --- hosts and links


def _crash(run: TrainingRun) -> None:
    run.crash(run.another)


def _crash_and_return(run: TrainingRun) -> None:
    run.crash(run.another)
    run.restart(run.another)


def _cut(run: TrainingRun) -> None:
    run.cluster.cut(run.another)


def _cut_shortly(run: TrainingRun) -> None:
    run.cluster.cut(run.another)
    time.sleep(5.0)
    run.cluster.heal(run.another)


def _cut_pair(run: TrainingRun) -> None:
    run.cut_pair()


def _cut_pair_shortly(run: TrainingRun) -> None:
    _cut_pair(run)
    time.sleep(5.0)
    run.heal_pair()


def _while_starting(do: Doing) -> Doing:
    def start_and_do(run: TrainingRun) -> None:
        wait(lambda: run.has_ended or run.has_worker(run.another), "a worker", 100.0)
        time.sleep(2.0)
        do(run)

    return start_and_do


_DRIPS = """
import select, socket, sys
open_ones = {}
while True:
    if select.select([sys.stdin], [], [], 0.5)[0]:
        line = sys.stdin.readline()
        if not line:
            break
        address, port = line.split()
        try:
            open_ones[address, port] = socket.create_connection((address, int(port)), 1.0)
        except OSError:
            pass
    for place, stream in list(open_ones.items()):
        try:
            stream.send(b"x")
        except OSError:
            del open_ones[place]
"""


def _drip(run: TrainingRun) -> None:
    """Have a stranger connect to all that listens on the chief's host, and send a byte now and then to each."""
    stranger = run.help("head", [sys.executable, "-c", _DRIPS])
    assert stranger.stdin is not None
    address = next(host.address for host in run.cluster.spec.hosts if host.name == run.chief)
    known: set[int] = set()
    while not run.has_ended and run.steps() < 5 and time.monotonic() - run.began_s < 200.0:
        for port in run.listening(run.chief) - known:
            known.add(port)
            stranger.stdin.write(f"{address} {port}\n")
        stranger.stdin.flush()
        time.sleep(0.05)


# --- disks


def _checkpoints(run: TrainingRun) -> Path:
    return run.home(run.chief) / "checkpoints"


def _small_disk(run: TrainingRun) -> None:
    make = "mkdir -p /root/checkpoints && mount -t tmpfs -o size=256k tmpfs /root/checkpoints"
    run.cluster.run(run.chief, ["sh", "-c", make])


def _fill_disk(run: TrainingRun) -> None:
    fill = "while head -c 4096 /dev/zero >> /root/checkpoints/filling; do :; done"
    run.cluster.run(run.chief, ["sh", "-c", fill])


def _kill_at_a_save(run: TrainingRun) -> None:
    worker, before = run.worker(run.chief), _newest(_checkpoints(run))
    wait(lambda: _newest(_checkpoints(run)) != before, "a new file of a checkpoint", 20.0)
    kill(worker)


def _newest(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


def _damage_and_kill(run: TrainingRun) -> None:
    worker = run.worker(run.chief)
    kill(worker, signal.SIGSTOP)  # it writes no newer one
    written = _checkpoints(run).glob("ckpt-*.data-*")
    newest = max(written, key=lambda path: int(path.name.partition(".")[0].removeprefix("ckpt-")))
    newest.write_bytes(bytes(newest.stat().st_size))
    kill(worker)


# --- all of them

_LOST = "the host `{host}` of worker {rank} was lost"
_UNREACHED = r"worker {rank} does not reach worker 0 \("


def _killed(who: str) -> Fault:
    """The death of a worker, after which the run starts its workers again, to the end of a short training."""
    name = "the chief is killed" if who == "chief" else "a worker is killed"
    return Fault(name, _kill(who), Expected("restarts", 20.0, 0, who, "SIGKILL"))


_ALL = (
    Fault("a worker is stopped for 5 s", _stop_another_shortly, Expected("goes on", 10.0)),
    Fault(
        "the launcher is stopped for 10 s",
        _stop_launcher,
        Expected("goes on", 10.0, says=r"the launcher did not run for 1\d s: it was stopped"),
    ),
    Fault("a host's link is cut for 5 s", _cut_shortly, Expected("goes on", 15.0)),
    Fault("two hosts are cut from each other for 5 s", _cut_pair_shortly, Expected("goes on", 15.0)),
    Fault("a stranger drips bytes at each open port", _drip, Expected("goes on", 10.0), at_start=True),
    Fault("Ctrl-C", _signal_launcher(signal.SIGINT), Expected("ends", 10.0, 130)),
    Fault("TERM to the launcher", _signal_launcher(signal.SIGTERM), Expected("ends", 10.0, 143)),
    Fault("the launcher is killed", _signal_launcher(signal.SIGKILL), Expected("ends", 5.0, -signal.SIGKILL)),
    Fault(
        "the script of a worker raises",
        _order("raise"),
        Expected("ends", 15.0, 1, "another", "ValueError: only here"),
    ),
    Fault("the step of a worker fails", _order("fail"), Expected("ends", 15.0, 1, "another", "broken data")),
    Fault(
        "the step of a worker fails, and its script catches that",
        _order("fail and catch"),
        Expected("ends", 20.0, 1, "another", "a step has failed on this worker"),
    ),
    Fault(
        "a worker is stopped for good",
        _stop_another,
        Expected("ends", 60.0, 124, "another"),
        is_cheap=False,
        options=("--stall-timeout", "20"),
    ),
    Fault("the agent of a host is killed", _kill_agent, Expected("ends", 15.0, 1, "another")),
    Fault("a host's link is cut", _cut, Expected("ends", 50.0, 1, "another", _LOST), is_cheap=False),
    Fault(
        "two hosts are cut from each other",
        _cut_pair,
        Expected("ends", 25.0, 124, "another", _UNREACHED),
        is_cheap=False,
    ),
    Fault(
        "a host's link is cut while workers start",
        _while_starting(_cut),
        Expected("ends", 60.0, 1, "another", _LOST),
        is_cheap=False,
        at_start=True,
    ),
    Fault(
        "two hosts are cut from each other while workers start",
        _while_starting(_cut_pair),
        Expected("ends", 60.0, 124, "another", _UNREACHED),
        is_cheap=False,
        at_start=True,
    ),
    Fault(
        "the disk is full at a checkpoint",
        _fill_disk,
        Expected("ends", 20.0, 74, "chief", "No space left|full"),
        prepare=_small_disk,
        every=2,
    ),
    _killed("another"),
    _killed("chief"),
    Fault(
        "the chief is killed while it saves",
        _kill_at_a_save,
        Expected("restarts", 20.0, 0, "chief", "SIGKILL"),
        every=1,
    ),
    Fault(
        "the newest checkpoint is damaged, and the chief killed",
        _damage_and_kill,
        Expected("restarts", 20.0, 0, "chief", "damaged"),
        every=3,  # there are two of them
    ),
    Fault(
        "a host crashes and comes back",
        _crash_and_return,
        Expected("restarts", 50.0, 0, "another", _LOST),
        is_cheap=False,
    ),
    Fault("a host crashes", _crash, Expected("ends", 50.0, 1, "another", _LOST), is_cheap=False),
)
FAULTS = {fault.name: fault for fault in _ALL}
"""By their names, in the order of the table."""
