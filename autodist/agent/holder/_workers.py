"""The workers of one machine: started, listened to, and seen to their ends; runs on the machine."""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from autodist.agent._processes import descendants, send_signal
from autodist.agent.holder._descriptors import read_some
from autodist.agent.holder._environment import worker_environment
from autodist.agent.protocol import CHUNK_BYTES

__all__ = ["CannotStart", "Listener", "Worker", "start_worker"]

_START_S = 30.0  # until the worker's program runs, however slow the file system is


class CannotStart(Exception):
    """A worker could not be started; says why."""


class Listener(Protocol):
    """Takes what workers write, and how they end."""

    async def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """Take bytes; may wait, and then the worker waits as well."""

    def exited(self, rank: int, exit_code: int | None, signal_name: str | None) -> None:
        """Note an end."""


class Worker:
    """A worker process, from its start until its pipes are closed; made by :func:`start_worker`."""

    def __init__(self, rank: int, process: subprocess.Popen[bytes], pipes: Sequence[int], listener: Listener) -> None:
        self.rank = rank
        self._process = process
        self._listener = listener
        self._ears = [
            _PipeReader(pipe, lambda data, is_error=is_error: listener.output(rank, is_error, data))  # type: ignore[misc]
            for pipe, is_error in zip(pipes, (False, True), strict=True)
        ]
        self._reported: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Its process id, as this process sees it."""
        return self._process.pid

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended, as far as :meth:`look` has seen."""
        return self._process.returncode is not None

    def look(self) -> None:
        """See whether the process has ended, and if so report that after what it has written."""
        if self._reported is None and self._process.poll() is not None:
            self._reported = asyncio.ensure_future(self._report())

    async def reported(self) -> None:
        """Wait until the end, which must have come, was reported."""
        self.look()
        if self._reported is not None:
            await self._reported

    def signal(self, signum: int, everything: bool) -> None:
        """Send it a signal, with ``everything`` also to its descendants and its session."""
        if everything:
            mine = {process.pid for process in descendants(self.pid)} | {self.pid}
            for process in descendants(os.getpid()):
                if process.pid in mine or process.session == self.pid:
                    send_signal(process, signum)
        elif not self.has_exited:
            # It is not reaped before `look` has seen its end, so that the number is still its own.
            with contextlib.suppress(OSError):
                os.kill(self.pid, signum)

    async def _report(self) -> None:
        for ear in self._ears:
            await ear.caught_up()
        code = self._process.returncode
        if code >= 0:
            self._listener.exited(self.rank, code, None)
        else:
            self._listener.exited(self.rank, None, _signal_name(-code))


class _PipeReader:
    """Listens at one pipe until its last writer has closed it, which may be long after the worker's end."""

    def __init__(self, pipe: int, hand_on: Callable[[bytes], Awaitable[None]]) -> None:
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._hand_on = hand_on
        self._heard_bytes = 0
        self._progress = asyncio.Event()
        self._task = asyncio.ensure_future(self._listen())

    async def caught_up(self) -> None:
        """Wait until all that is in the pipe now has been passed on."""
        if self._task.done():
            return
        goal = self._heard_bytes + _readable_bytes(self._pipe)
        while self._heard_bytes < goal and not self._task.done():
            self._progress.clear()
            await self._progress.wait()

    async def _listen(self) -> None:
        while data := await read_some(self._pipe, CHUNK_BYTES):
            await self._hand_on(data)
            self._heard_bytes += len(data)
            self._progress.set()
        os.close(self._pipe)
        self._progress.set()


def _readable_bytes(pipe: int) -> int:
    number = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, number)
    return number[0]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


async def start_worker(
    rank: int, argv: Sequence[str], env: Mapping[str, str], cwd: str, outside: int, listener: Listener
) -> tuple[Worker, int]:
    """Start a worker and return it with its process id as the machine numbers it.

    Args:
        rank: The worker.
        argv: Program and arguments.
        env: Variables over the agent's own.
        cwd: Working directory, made if missing; relative to the home directory.
        outside: Descriptor of the ``/proc`` outside the namespace; -1 for no namespace.
        listener: Takes its output and its end.

    Raises:
        CannotStart: Its directory or its program can't be used.
    """
    directory = os.path.join(os.path.expanduser("~"), os.path.expanduser(cwd))
    status, status_writer = os.pipe()
    pipes, writers = zip(os.pipe(), os.pipe(), strict=True)
    arguments = [str(status_writer), str(outside), str(os.getpid()), directory, *argv]
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _start_source(), *arguments],
            env=worker_environment(os.environ, env, os.getpid()),
            stdin=subprocess.DEVNULL, stdout=writers[0], stderr=writers[1],
            pass_fds=[fd for fd in (status_writer, outside) if fd >= 0], start_new_session=True,
        )  # fmt: skip
    except (OSError, ValueError) as error:
        for descriptor in (status, *pipes):
            os.close(descriptor)
        raise CannotStart(f"no process can be started: {error}") from error
    finally:
        for descriptor in (status_writer, *writers):
            os.close(descriptor)
    worker = Worker(rank, process, pipes, listener)
    return worker, await _started(worker, status)


async def _started(worker: Worker, status: int) -> int:
    """Return the process id when the worker's program runs.

    Raises:
        CannotStart: It does not.
    """
    os.set_blocking(status, False)
    said = b""
    try:
        said = await asyncio.wait_for(_read_all(status), _START_S)
    except asyncio.TimeoutError:
        worker.signal(signal.SIGKILL, everything=False)
        raise CannotStart(f"it was not started within {_START_S:g} s: the file system does not answer") from None
    finally:
        os.close(status)
    told: dict[str, Any] = {}
    for line in said.splitlines():
        told.update(json.loads(line))
    if "failed" in told:
        raise CannotStart(f"{told['failed']}: {told['reason']}")
    if "pid" not in told:
        raise CannotStart("it was ended while it was started")
    return int(told["pid"])


async def _read_all(descriptor: int) -> bytes:
    said = b""
    while data := await read_some(descriptor, CHUNK_BYTES):
        said += data
    return said


def _start_source() -> str:
    loader = importlib.import_module("autodist.agent.holder._start").__spec__.loader  # type: ignore[union-attr]
    source: str = loader.get_source("autodist.agent.holder._start")  # type: ignore[union-attr]
    return source
