"""A channel to a program that this machine starts: the worker's own, ``ssh`` or ``srun``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence

from autodist.remote._base import Channel

__all__ = ["SubprocessChannel", "open_subprocess"]

_END_S = 2.0  # for a program that was sent TERM


class SubprocessChannel(Channel):
    """The streams of a child process of this one.

    Args:
        process: Started with pipes for all three streams, and in a session of its own.
        is_road: Whether the process is only the road to the program, such as ``ssh``, and is killed when it does not
            end with its standard input. A program that has to clean up after itself is asked to end and no more.

    """

    def __init__(self, process: asyncio.subprocess.Process, is_road: bool = True) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self._is_road = is_road
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr

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
        with contextlib.suppress(OSError, RuntimeError):  # it has ended, and the reader sees that
            self._stdin.write(data)

    async def drain(self) -> None:
        """Wait until there is room for more."""
        with contextlib.suppress(OSError):
            await self._stdin.drain()

    async def wait(self) -> int | None:
        """Wait for its end."""
        return await self._process.wait()

    async def close(self) -> None:
        """Close its standard input, and end it if that does not."""
        with contextlib.suppress(OSError, RuntimeError):
            self._stdin.close()
        for end in (self._process.terminate, *([self._process.kill] if self._is_road else ())):
            if await _ends(self._process):
                break
            with contextlib.suppress(ProcessLookupError):
                end()
        await _ends(self._process)


async def open_subprocess(
    argv: Sequence[str], env: Mapping[str, str] | None = None, *, is_road: bool = True
) -> SubprocessChannel:
    """Start a program on this machine, in a session of its own so that a Ctrl-C at the terminal does not reach it.

    Args:
        argv: Program and arguments.
        env: Its whole environment; None is that of this process.
        is_road: Whether it is only the road to the program that is meant, see :class:`SubprocessChannel`.

    Raises:
        OSError: It can't be started.

    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=pipe, stdout=pipe, stderr=pipe, env=env, start_new_session=True
    )
    return SubprocessChannel(process, is_road)


async def _read(stream: asyncio.StreamReader, most_bytes: int) -> bytes:
    try:
        return await stream.read(most_bytes)
    except OSError:
        return b""


async def _ends(process: asyncio.subprocess.Process) -> bool:
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait(), _END_S)
        return True
    return False
