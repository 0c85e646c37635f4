"""One training on emulated hosts: how it is started, what can be done to it, and what is seen of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autodist.testing import EmulatedCluster

__all__ = ["TrainingRun", "Unending", "first_named", "kill", "steps_of", "wait"]

HOME = "root"
_SCRIPT = Path(__file__).with_name("training.py")
_FILES = ("tmp", "dev/shm", "root/.cache/autodist/runs")
_START_TIMEOUT_S = 240.0
_LISTENS = "0A"


class Unending(Exception):
    """Something that has to happen has not, within its bound."""


@dataclass(frozen=True)
class _Seen:
    """What a host has of processes, listening ports and files."""

    processes: frozenset[str]
    ports: frozenset[int]
    files: frozenset[str]


class TrainingRun:
    """`autodist run training.py` at the host `head`.

    Args:
        cluster: The hosts, which nothing else uses.
        strategy: Of the run.
        output: The file for what it says.

    """

    def __init__(self, cluster: EmulatedCluster, strategy: str, output: Path) -> None:
        self.cluster = cluster
        self.strategy = strategy
        self.hosts = tuple(host.name for host in cluster.spec.hosts)
        self.began_s = 0.0
        self._since = 0
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._helpers: list[subprocess.Popen[str]] = []
        self._crashed: set[str] = set()
        self._is_pair_cut = False
        self._clean()
        self._before = {host: self._seen(host) for host in self._all}

    @property
    def _all(self) -> tuple[str, ...]:
        return (*self.hosts, "head")

    @property
    def chief(self) -> str:
        """The host of worker 0."""
        return self.hosts[0]

    @property
    def another(self) -> str:
        """The host of the last worker."""
        return self.hosts[-1]

    def rank_of(self, host: str) -> int:
        """The number of a host's worker."""
        return self.hosts.index(host)

    def home(self, host: str) -> Path:
        """Where the training writes on a host."""
        return self.cluster.disk(host) / HOME

    # --- its course

    def start(self, options: Sequence[str], arguments: Sequence[str]) -> None:
        """Begin; returns at once."""
        command = ["autodist", "run", str(_SCRIPT), "-H", ",".join(self.hosts), "--strategy", self.strategy]
        command.append("--allow-open-ports")  # TensorFlow's servers break as well
        self.began_s = time.monotonic()
        with self._output.open("wb") as file:
            self._process = subprocess.Popen(
                self.cluster.command("head", [*command, *options, "--", *arguments]), stdout=file, stderr=file
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """What waits for the launcher."""
        assert self._process is not None, "it has been started"
        return self._process

    @property
    def told(self) -> str:
        """All that the console has shown."""
        return self._output.read_text(errors="replace")

    def begins_anew(self) -> None:
        """From here on count only what the console shows from now on: the workers are started again."""
        self._since = len(self.told)

    def steps(self) -> int:
        """How many steps the slowest worker has taken, with those before the last start; 0 if none since then."""
        return steps_of(self.told[self._since :], len(self.hosts))

    def takes(self, steps: int) -> None:
        """Wait until all workers have taken some steps since the last start, or as many more."""
        self.comes_to(1)
        self.comes_to(self.steps() + steps - 1)

    def comes_to(self, steps: int, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Wait until all workers have taken so many steps."""
        wait(lambda: self.has_ended or self.steps() >= steps, f"step {steps}", timeout_s)
        if self.has_ended:
            raise Unending(f"it ended with {self.process.returncode} before step {steps}")

    @property
    def has_ended(self) -> bool:
        """Whether the launcher has."""
        return self.process.poll() is not None

    def end(self, timeout_s: float) -> int:
        """The exit code, once the launcher has ended."""
        wait(lambda: self.has_ended, "the end", timeout_s)
        return int(self.process.returncode)

    # --- what can be done to it

    def launcher(self) -> int:
        """The process that the user has started."""
        return self._pid("head", "autodist run")

    def worker(self, host: str) -> int:
        """The process of a host's script."""
        return self._pid(host, "autodist.worker")

    def has_worker(self, host: str) -> bool:
        """Whether the script's process is there."""
        return any("autodist.worker" in line for line in self.cluster.processes(host).values())

    def show_stacks(self) -> None:
        """Have what the workers are at written to the console."""
        for host in self.hosts:
            if self.has_worker(host):
                kill(self.worker(host), signal.SIGUSR1)
        time.sleep(2.0)

    def agent(self, host: str) -> int:
        """The first of the processes that watch over a host's worker."""
        found = [pid for pid in self.cluster.processes(host) if _name(pid).startswith("autodist-guard")]
        if not found:
            raise Unending(f"no agent on {host}")
        return found[0]

    def _pid(self, host: str, words: str) -> int:
        found = [pid for pid, line in self.cluster.processes(host).items() if words in line]
        if not found:
            raise Unending(f"no `{words}` on {host}")
        return max(found)

    def order(self, host: str, text: str) -> None:
        """Have the script of a host do something wrong in its next step."""
        partial = self.home(host) / "order.part"
        partial.write_text(text)
        partial.rename(partial.with_name("order"))

    def crash(self, host: str) -> None:
        """Have a host crash."""
        self._crashed.add(host)
        self.cluster.crash(host)

    def restart(self, host: str) -> None:
        """Start a host that has crashed."""
        self.cluster.restart(host)
        self._crashed.remove(host)

    def is_up(self, host: str) -> bool:
        """Whether a host has not crashed, or is back."""
        return host not in self._crashed

    def cut_pair(self) -> None:
        """Cut the hosts of the chief and of the other worker from each other; all others hear both."""
        self.cluster.cut(self.chief, self.another)
        self._is_pair_cut = True

    def heal_pair(self) -> None:
        """Connect them again."""
        if self._is_pair_cut:
            self.cluster.heal(self.chief, self.another)
        self._is_pair_cut = False

    def listening(self, host: str) -> set[int]:
        """The ports that something has opened on a host since the run began."""
        return set(_ports(self.cluster.disk(host).parent) - self._before[host].ports)

    def help(self, host: str, argv: Sequence[str]) -> subprocess.Popen[str]:
        """Start a process of ours on a host, which ends with this run."""
        command = self.cluster.command(host, argv)
        self._helpers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True))
        return self._helpers[-1]

    # --- what is seen of it

    def left(self, timeout_s: float) -> list[str]:
        """What is left on the hosts once they have had some time to end by themselves."""
        self.dismiss()
        deadline = time.monotonic() + timeout_s
        while (found := self._left()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def _left(self) -> list[str]:
        found = []
        for host in (host for host in self._all if self.is_up(host)):
            seen, before = self._seen(host), self._before[host]
            found += [f"{host}: process {line}" for line in sorted(seen.processes - before.processes)]
            found += [f"{host}: port {port}" for port in sorted(seen.ports - before.ports)]
            found += [f"{host}: file {path}" for path in sorted(seen.files - before.files)]
        return found

    def _seen(self, host: str) -> _Seen:
        disk = self.cluster.disk(host)
        files = {f"{folder}/{path.name}" for folder in _FILES for path in _entries(disk / folder)}
        return _Seen(frozenset(self.cluster.processes(host).values()), _ports(disk.parent), frozenset(files))

    def dismiss(self) -> None:
        """End the processes of ours on hosts."""
        for process in self._helpers:
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.close()
            process.wait(10)
        self._helpers.clear()

    def close(self) -> None:
        """End what is left by force, and connect all hosts again."""
        self.dismiss()
        self.heal_pair()
        for host in self.hosts:
            self.restart(host) if host in self._crashed else self.cluster.heal(host)
        for host in self._all:
            for pid in self.cluster.processes(host):
                kill(pid)
        if self._process is not None:
            self._process.wait(30)
        self._clean()

    def _clean(self) -> None:
        remove = "umount /root/checkpoints 2>/dev/null; rm -rf /root/out /root/checkpoints /root/order /root/runs"
        for host in self._all:
            self.cluster.run(host, ["sh", "-c", remove])


def steps_of(told: str, workers: int) -> int:
    """How many steps the slowest worker has taken, by what a console has shown; 0 while one has taken none."""
    last = {rank: int(step) for rank, step in re.findall(r"^\[(\d+)\] step (\d+)$", told, re.MULTILINE)}
    return min(last.values()) + 1 if len(last) == workers else 0


def first_named(told: str) -> tuple[int, str] | None:
    """The worker that a console has named as the first to fail, and its host; of several attempts that of the first."""
    found = re.search(r"first failure +worker (\d+) of \d+ on ([^\s,]+)", told)
    return None if found is None else (int(found[1]), found[2])


def wait(condition: Callable[[], object], what: str, timeout_s: float) -> None:
    """Wait for something.

    Raises:
        Unending: It has not come.

    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Unending(f"{what} did not come within {timeout_s:g} s")
        time.sleep(0.05)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _ports(process: Path) -> frozenset[int]:
    """The ports on which something listens in a process's network."""
    tables = ((process / "net" / name).read_text().splitlines()[1:] for name in ("tcp", "tcp6"))
    rows = [row.split() for table in tables for row in table]
    return frozenset(int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENS)
