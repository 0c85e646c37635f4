"""One emulated host: its namespaces, its first process, and all others on it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from autodist.errors import LaunchError
from autodist.testing._emulated._boot import BOOT, boot_arguments
from autodist.testing._emulated._emulated_network import Network
from autodist.testing._emulated._tools import SYSTEM_PATH, find_tool

_BOOT_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 10.0
_READY = "Server listening"
_SSHD = frozenset({"sshd", "sshd-session", "sshd-auth", "nsenter"})  # the last is how we reach the host from outside


class EmulatedHost:
    """A host, from :meth:`boot` to :meth:`crash`.

    Args:
        name: ``h1``, ``h2``... or ``head``.
        number: The last number of its address.
        network: What it is connected to.
        directory: Its files on this machine; has ``etc`` already.
        ssh: The ``~/.ssh`` of its users.
        binds: Directories it shares with this machine.
    """

    def __init__(
        self, name: str, number: int, network: Network, directory: Path, ssh: Path, binds: Sequence[Path]
    ) -> None:
        self.name = name
        self.number = number
        self._network = network
        self._directory = directory
        self._arguments = boot_arguments(directory, ssh, name, binds)
        self._keeper: subprocess.Popen[bytes] | None = None
        self._init = 0

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._keeper is not None and self._keeper.poll() is None

    @property
    def init(self) -> int:
        """Its first process, as this machine numbers it.

        Raises:
            LaunchError: It is down.
        """
        if not self.is_up:
            raise LaunchError(f"the emulated host `{self.name}` is down")
        return self._init

    def boot(self) -> None:
        """Begin to start it, with an empty disk."""
        (self._directory / "disk").mkdir(exist_ok=True)
        self._network.plug(self.name, self.number)
        with self._log.open("wb") as log:
            self._keeper = subprocess.Popen(
                [*self._isolated, "/bin/sh", "-c", BOOT, "sh", *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": SYSTEM_PATH, "SSHD": str(find_tool("sshd"))},
                cwd="/",
                start_new_session=True,
            )

    @property
    def _isolated(self) -> tuple[str, ...]:
        own = ("unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child=KILL")
        return (find_tool("ip") or "ip", "netns", "exec", self._network.namespace(self.name), *own)

    def wait_until_up(self) -> None:
        """Wait until its sshd listens.

        Raises:
            LaunchError: It does not start; with what it wrote.
        """
        assert self._keeper is not None
        deadline = time.monotonic() + _BOOT_TIMEOUT_S
        while _READY not in (written := self._log.read_text()):
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                raise LaunchError(f"the emulated host `{self.name}` does not start:\n{written[-2000:]}")
            time.sleep(0.01)
        self._init = int(Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children").read_text().split()[0])

    def crash(self) -> None:
        """End it as a power cut does: the link goes first, so no other host notices."""
        self._network.unplug(self.number)
        if self.is_up:
            os.kill(self._init, signal.SIGKILL)  # the first of its PID namespace: the kernel ends all others with it
            self.wait_until_dead()
        self._end_all()
        self._network.forget(self.name)

    def wait_until_dead(self) -> None:
        """Wait until a process that something else has ended is gone."""
        if self._keeper is not None:
            self._keeper.wait(_END_TIMEOUT_S)

    def processes(self) -> dict[int, str]:
        """The processes on it, by this machine's number: command lines, without those of its sshd."""
        keeper = None if self._keeper is None else self._keeper.pid
        found = {pid: _command(pid) for pid in self._network.pids(self.name) if pid != keeper}
        return {pid: command for pid, command in found.items() if command is not None}

    def _end_all(self) -> None:
        """End what entered its network only, and so is not in its PID namespace."""
        deadline = time.monotonic() + _END_TIMEOUT_S
        while (pids := self._network.pids(self.name)) and time.monotonic() < deadline:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    @property
    def _log(self) -> Path:
        return self._directory / "log"


def _command(pid: int) -> str | None:
    """The command line of a process, None if it is dead or sshd's."""
    process = Path(f"/proc/{pid}")
    try:
        # A name in brackets is what `ps` shows of a process that has cleared its own command line.
        line = process.joinpath("cmdline").read_bytes().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
        program = process.joinpath("exe").readlink().name
    except OSError:
        return None
    return None if program in _SSHD else line or f"[{program}]"
