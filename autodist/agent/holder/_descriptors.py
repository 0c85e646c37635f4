"""Reading and writing file descriptors without ever blocking the event loop; runs on the machine.

The event loop's own pipe transports are not used: under ``sshd`` standard input and output are one socket, and they
take input for a sign that the reader of the output has gone.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable

__all__ = ["DescriptorWriter", "read_some"]

_HIGH_BYTES = 1 << 18
_LOW_BYTES = 1 << 16


async def read_some(descriptor: int, most_bytes: int) -> bytes:
    """Return what can be read from a non-blocking descriptor, at least one byte; ``b""`` at its end."""
    while True:
        try:
            return os.read(descriptor, most_bytes)
        except BlockingIOError:
            await _readable(descriptor)
        except OSError:
            return b""


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    readable = loop.create_future()

    def note() -> None:
        # It may be called again before the coroutine goes on and removes it.
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(descriptor, note)
    try:
        await readable
    finally:
        loop.remove_reader(descriptor)


class DescriptorWriter:
    """Writes to a descriptor as fast as its reader takes it, and keeps the rest.

    Args:
        descriptor: Made non-blocking.
        on_broken: Called once when there is no reader any more; later bytes are dropped.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._chunks: deque[bytes] = deque()
        self._kept_bytes = 0
        self._is_broken = False
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def is_congested(self) -> bool:
        """Whether the reader is so slow that one should wait."""
        return not self._has_room.is_set()

    def write(self, data: bytes) -> None:
        """Write bytes now or later; never blocks."""
        if self._is_broken or not data:
            return
        was_empty = not self._chunks  # else the loop writes already, and what comes now waits behind that
        self._chunks.append(data)
        self._kept_bytes += len(data)
        if was_empty:
            self._flush()
            if self._chunks:
                asyncio.get_running_loop().add_writer(self._descriptor, self._flush)
        if self._kept_bytes > _HIGH_BYTES:
            self._has_room.clear()

    async def drain(self) -> None:
        """Wait until little is kept."""
        await self._has_room.wait()

    async def flush(self, timeout_s: float) -> None:
        """Wait until nothing is kept, but not longer than this."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while self._chunks and loop.time() < deadline_s:
            await asyncio.sleep(0.01)

    def _flush(self) -> None:
        try:
            while self._chunks:
                self._write_first()
        except BlockingIOError:
            pass
        except OSError:
            self._break()
        if self._kept_bytes <= _LOW_BYTES:
            self._has_room.set()
        if not self._chunks:
            asyncio.get_running_loop().remove_writer(self._descriptor)

    def _write_first(self) -> None:
        chunk = self._chunks[0]
        written = os.write(self._descriptor, chunk)
        self._kept_bytes -= written
        if written == len(chunk):
            self._chunks.popleft()
        else:
            self._chunks[0] = chunk[written:]

    def _break(self) -> None:
        self._chunks.clear()
        self._kept_bytes = 0
        if not self._is_broken:
            self._is_broken = True
            self._on_broken()
