"""Several systems that train the same model on the same emulated hosts, in turns."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from measuring import SCRIPTS, progress
from on_hosts import by_name

from autodist.resource_spec import Host, ResourceSpec, to_yaml
from autodist.testing import EmulatedCluster

__all__ = ["Peer", "System", "Task", "opened"]

_START_TIMEOUT_S = 400.0
_BLOCK_TIMEOUT_S = 200.0
_END_TIMEOUT_S = 60.0
_HOST_TIMEOUT_S = 30.0
"""Of sixteen hosts on two cores, some are silent for longer than the three seconds that make a machine a lost one."""
_CHOSEN = re.compile(r"step 0: strategy (.*)")
_UNSTOPPABLE = ("mirrored",)
"""Its workers give each other up after ten seconds without a heartbeat; without a turn they wait, and do not poll."""
_APART = ("alone",)
"""Its workers know nothing of each other."""
_FIRST_PORTS = {"mirrored": 7100, "servers": 7500}
"""Of systems with servers of their own: all are up at the same time."""
_PEER = struct.Struct("iii")  # SO_PEERCRED: process, user, group


@dataclass(frozen=True)
class Task:
    """What all of them do.

    Attributes:
        model: Of `examples/models`.
        size: Of the model.
        batch_size: Examples per step on all hosts together.
        strategy: Of AutoDist.
    """

    model: str
    size: str
    batch_size: int
    strategy: str = "auto"


@dataclass(frozen=True)
class System:
    """Who trains.

    Attributes:
        name: In tables.
        kind: Of `scripts/peer_training.py`; by default the name.
        python: The interpreter that runs it: that of another checkout runs the AutoDist that is there.
    """

    name: str
    kind: str = ""
    python: str = sys.executable

    @property
    def is_ours(self) -> bool:
        """Whether it is AutoDist, of any version."""
        return (self.kind or self.name) == "autodist"


class Peer:
    """One system: its workers on all hosts, stopped by a signal while it has no turn.

    Attributes:
        name: Of the system.
        gradient_bytes: Of one host, the largest; 0 of a system that was not asked.
        strategy: What a run says of its choice; empty of a system that has none.
    """

    def __init__(self, name: str, run: subprocess.Popen[bytes], server: socket.socket, log: Path) -> None:
        self.name = name
        self.gradient_bytes = 0
        self.strategy = ""
        self._run, self._server, self._log = run, server, log
        self._ends: list[socket.socket] = []

    def start(self, num_workers: int) -> None:
        """Wait until each worker has made its first step, then stop them."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while len(self._ends) < num_workers:
            if self._run.poll() is not None or time.monotonic() > deadline:
                raise self._failed("did not start")
            with contextlib.suppress(TimeoutError):
                self._ends.append(self._server.accept()[0])
        for end in self._ends:
            end.settimeout(_BLOCK_TIMEOUT_S)
        self._lines = [end.makefile("rw") for end in self._ends]
        self.gradient_bytes = max(one["gradient_bytes"] for one in self._heard())
        chosen = _CHOSEN.search(self._log.read_text(errors="replace"))
        self.strategy = chosen[1] if chosen else ""
        self._signal(signal.SIGSTOP)

    def block(self, count: int) -> float:
        """Seconds of a step, of so many: the median of those of the worker that took longest.

        Of workers that do not wait for each other it is the mean of the slowest one: which of them has the processors
        changes from step to step. One step before them finds everything cold, and does not count.
        """
        self._signal(signal.SIGCONT)
        told = self._asked(1 + count)
        self._signal(signal.SIGSTOP)
        workers = [one["seconds"][1:] for one in told]
        if self.name in _APART:
            return max(map(statistics.mean, workers))
        return statistics.median(max(times) for times in zip(*workers, strict=True))

    def end(self) -> None:
        """Let the workers go on to their end, or end them."""
        self._signal(signal.SIGCONT)
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for stop in (lambda: None, self._run.terminate, self._run.kill):
            stop()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._run.wait(_END_TIMEOUT_S)
                return

    def _asked(self, count: int) -> list[dict[str, Any]]:
        with self._told_of_its_end():
            for lines in self._lines:
                lines.write(f"{count}\n")
                lines.flush()
        return self._heard()

    def _heard(self) -> list[dict[str, Any]]:
        with self._told_of_its_end():
            return [json.loads(lines.readline()) for lines in self._lines]

    @contextlib.contextmanager
    def _told_of_its_end(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._run.wait(_END_TIMEOUT_S)  # what it says of its end comes a while later
            raise self._failed("stopped to answer") from error

    def _signal(self, number: signal.Signals) -> None:
        if self.name in _UNSTOPPABLE:
            return
        for end in self._ends:
            # The kernel says who connected, by the number that the process has outside of its host.
            pid = _PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))[0]
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _failed(self, what: str) -> RuntimeError:
        return RuntimeError(f"{self.name} {what}:\n{self._log.read_text(errors='replace')[-3000:]}")


@contextlib.contextmanager
def opened(cluster: EmulatedCluster, shared: Path, task: Task, systems: Sequence[str | System]) -> Iterator[list[Peer]]:
    """Start systems on all hosts, one after the other, since a stopped one takes no time of the next."""
    peers: list[Peer] = []
    with contextlib.ExitStack() as stack:
        for named in systems:
            system = named if isinstance(named, System) else System(named)
            progress(f"peers: {task.model}, {system.name} starts")
            directory = Path(tempfile.mkdtemp(dir=shared))
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(directory / "turns"))
            server.listen()
            server.settimeout(1.0)
            log = directory / "log"
            spec = _spec(cluster, system)
            peer = Peer(system.name, _run(cluster, spec, task, system, server.getsockname(), log), server, log)
            stack.callback(peer.end)
            peer.start(spec.world_size)
            peers.append(peer)
        yield peers


def _spec(cluster: EmulatedCluster, system: System) -> ResourceSpec:
    """The hosts by name; with a worker for each of their devices, if the system has one device per worker."""
    hosts = list(by_name(cluster).hosts)
    if system.python != sys.executable:
        # Earlier versions refuse keys of a spec that they don't know; one with its default isn't written.
        hosts = [replace(host, cores_shared_by=1) for host in hosts]
    if system.is_ours:
        return ResourceSpec(tuple(hosts))
    return ResourceSpec(tuple(worker for host in hosts for worker in _workers(host)))


def _workers(host: Host) -> Iterator[Host]:
    for number in range(host.cpus):
        name = f"{host.name}#{number}" if number else host.name
        yield replace(host, name=name, chief=host.chief and number == 0, cpus=1)


def _run(
    cluster: EmulatedCluster, spec: ResourceSpec, task: Task, system: System, path: str, log: Path
) -> subprocess.Popen[bytes]:
    kind = system.kind or system.name
    port = _FIRST_PORTS.get(kind, 0)
    addresses = ",".join(f"{host.address}:{port + number}" for number, host in enumerate(spec.hosts))
    file = log.with_name("cluster.yml")
    file.write_text(to_yaml(spec))
    command = [system.python, "-m", "autodist", "run", str(SCRIPTS / "peer_training.py"), "--spec", str(file)]
    command += ["--host-timeout", f"{_HOST_TIMEOUT_S:g}"]
    command += ["--start-timeout", "0", "--stall-timeout", "0"]  # turns have bounds; not all report steps
    command += ["--strategy", task.strategy] if system.is_ours else []
    command += [
        "--env",
        f"HOROVOD_GLOO_TIMEOUT_SECONDS={_START_TIMEOUT_S:.0f}",
    ]  # or it fails after 30 s without a turn
    command += ["--env", "PYTHONPATH"] if "PYTHONPATH" in os.environ else []
    command += ["--", kind, task.model, task.size, str(task.batch_size), addresses, path]
    with log.open("wb") as output:
        # Not where the command was typed: in a checkout Python would take what is there instead of what is installed.
        return subprocess.Popen(cluster.command("head", command), stdout=output, stderr=output, cwd="/")
