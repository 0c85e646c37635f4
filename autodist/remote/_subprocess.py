"""A channel to a program that this machine starts: the agent's own, ``ssh`` or ``srun``."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from autodist.remote._base import Channel

_BUFFER_BYTES = 1 << 18
_END_S = 2.0  # for a program whose standard input has ended, or that was sent TERM or KILL


class SubprocessChannel(Channel):
    """The streams of a child process of this one; made by :func:`open_subprocess`.

    The event loop's own subprocesses are not used: they kill a process that is still there when the loop is closed,
    also one that is about to clean up.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        stdin: asyncio.StreamWriter,
        outputs: Sequence[tuple[asyncio.StreamReader, asyncio.ReadTransport]],
        is_road: bool,
    ) -> None:
        self._process = process
        self._is_road = is_road
        self._stdin = stdin
        (self._stdout, _), (self._stderr, _) = outputs
        self._transports = [transport for _, transport in outputs]
        self._exit_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = threading.Thread(target=self._await_exit, args=(asyncio.get_running_loop(),), daemon=True)
        waiting.start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    async def read(self, most_bytes: int = 65536) -> bytes:
        """Return what it has written to standard output; ``b""`` at the end."""
        return await _read(self._stdout, most_bytes)

    async def read_error(self, most_bytes: int = 65536) -> bytes:
        """Return what it has written to standard error; ``b""`` at the end."""
        return await _read(self._stderr, most_bytes)

    def write(self, data: bytes) -> None:
        """Send bytes to its standard input."""
        if not self._stdin.is_closing():  # else it has ended, and the reader sees that
            self._stdin.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        with contextlib.suppress(OSError):
            await self._stdin.drain()

    async def wait(self) -> int | None:
        """Wait for its end."""
        return await asyncio.shield(self._exit_code)

    async def close(self) -> None:
        """Close its standard input, and end it if that does not."""
        self._stdin.close()
        try:
            for end in (self._process.terminate, *([self._process.kill] if self._is_road else ())):
                if await self._ends():
                    break
                end()
            await self._ends()
        finally:  # also where the wait is cancelled, since nobody else has the pipes
            if self._stdin.transport.get_write_buffer_size():  # which the program does not read
                self._stdin.transport.abort()
            for transport in self._transports:
                transport.close()
        await asyncio.sleep(0)  # in which the transports let go of their pipes

    async def _ends(self) -> bool:
        done, _ = await asyncio.wait([self._exit_code], timeout=_END_S)
        return bool(done)

    def _await_exit(self, loop: asyncio.AbstractEventLoop) -> None:
        exit_code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(self._note_exit, exit_code)

    def _note_exit(self, exit_code: int) -> None:
        if not self._exit_code.done():
            self._exit_code.set_result(exit_code)


async def open_subprocess(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, is_road: bool = True
) -> SubprocessChannel:
    """Start a program on this machine, in a session of its own so that a Ctrl-C at the terminal does not reach it.

    Args:
        argv: Program and arguments.
        env: Its whole environment; None is that of this process.
        is_road: Whether it is only the way to the program that is meant, such as ``ssh``, and is killed when it does
            not end with its standard input. A program that has to clean up after itself is asked to end and no more.

    Raises:
        OSError: It can't be started.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    loop = asyncio.get_running_loop()
    try:
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
        stdin = asyncio.StreamWriter(transport, protocol, None, loop)
        outputs = [await _connected(stream) for stream in (process.stdout, process.stderr)]
    except BaseException:  # cancelled before there was anybody to close it
        for end in (process.stdin, process.stdout, process.stderr):
            end.close()
        threading.Thread(target=process.wait, daemon=True).start()
        raise
    return SubprocessChannel(process, stdin, outputs, is_road)


async def _connected(stream: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_BUFFER_BYTES, loop)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), stream)
    return reader, transport


async def _read(stream: asyncio.StreamReader, most_bytes: int) -> bytes:
    try:
        return await stream.read(most_bytes)
    except OSError:
        return b""
