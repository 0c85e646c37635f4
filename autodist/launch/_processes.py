"""Worker processes on this machine: each leads a session of its own, and is ended with all that is in it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from autodist.errors import LaunchError
from autodist.launch import _reaper
from autodist.launch._base import WorkerCommand

__all__ = ["ExitStatus", "Guard", "WorkerProcess", "is_anything_left"]

_LAST_WAIT_S = 10.0  # for a process that was sent SIGKILL


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended.

    Attributes:
        exit_code: What it returned; None if a signal ended it.
        signal: Name of that signal; None if it returned.

    """

    exit_code: int | None
    signal: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether it returned 0."""
        return self.exit_code == 0

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


class WorkerProcess:
    """A started worker.

    The process is not reaped before :meth:`release`: as long as it is at least a zombie, its number can't be given to
    another process, and a signal to its group can't reach a stranger.

    Args:
        command: What to start.
        on_exit: Called with the rank and the status when the process has ended, in a thread of its own.

    Raises:
        LaunchError: It can't be started.

    """

    def __init__(self, command: WorkerCommand, on_exit: Callable[[int, ExitStatus], None]) -> None:
        self.command = command
        self.rank = command.rank
        self._process = _start(command)
        self.pid = self._process.pid
        self._on_exit = on_exit
        self._waiter = threading.Thread(target=self._await_exit, name=f"exit of worker {self.rank}", daemon=True)
        self._waiter.start()

    @property
    def streams(self) -> tuple[IO[bytes], IO[bytes]]:
        """Standard output and standard error."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        return self._process.stdout, self._process.stderr

    def signal_session(self, signum: signal.Signals) -> None:
        """Send a signal to all that is left of the worker's session."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signum)
        for pid in _reaper.members_of_sessions({self.pid}):
            with contextlib.suppress(OSError):
                if os.getpgid(pid) != self.pid:
                    os.kill(pid, signum)

    def signal_leader(self, signum: signal.Signals) -> None:
        """Send a signal to the worker itself."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signum)

    def release(self) -> None:
        """Reap the process, which has ended or is about to, and close its streams."""
        self._waiter.join(_LAST_WAIT_S)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it hangs in the kernel; nobody can do more
            self._process.wait(timeout=0.1)
        for stream in self.streams:
            stream.close()

    def _await_exit(self) -> None:
        result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        assert result is not None
        if result.si_code == os.CLD_EXITED:
            status = ExitStatus(result.si_status)
        else:
            status = ExitStatus(None, _signal_name(result.si_status))
        self._on_exit(self.rank, status)


def is_anything_left(workers: Iterable[WorkerProcess]) -> bool:
    """Whether a process is alive in the session of one of these workers."""
    return bool(_reaper.members_of_sessions({worker.pid for worker in workers}))


class Guard:
    """The process that cleans up should this one be killed; a context manager.

    Args:
        run_id: What the processes to be ended carry in their environment.

    """

    def __init__(self, run_id: str) -> None:
        argv = [sys.executable, "-I", "-S", _reaper.__file__, run_id]
        try:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise LaunchError(f"`{sys.executable}` can't be started: {error.strerror or error}") from error

    def watch(self, pid: int) -> None:
        """Have a worker and its session ended after this process."""
        self._write(f"{pid}\n")

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write("\n")
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_LAST_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _write(self, text: str) -> None:
        assert self._process.stdin is not None
        # If somebody has killed the guard, the run goes on without it.
        with contextlib.suppress(OSError):
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()


def _start(command: WorkerCommand) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command.argv,
            env=dict(command.env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        reason = error.strerror or error
        raise LaunchError(
            f"worker {command.rank} can't be started on `{command.host}`: `{command.argv[0]}`: {reason}",
            hint="check `python` of this host in the resource spec",
        ) from error


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
