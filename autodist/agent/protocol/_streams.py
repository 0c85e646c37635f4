"""Streams of bytes over the one line between launcher and agent, each with a window of its own; runs on both sides.

A side sends no more bytes of a stream than the other has made room for. So a reader that is slow, or has stopped, holds
up its own stream and nothing else, and no side has to keep more than a window for each stream.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable

from autodist.agent.protocol._frames import CHUNK_BYTES, Frame, FrameError, Kind, encode

__all__ = ["WINDOW_BYTES", "Stream", "StreamReset", "Streams"]

WINDOW_BYTES = 1 << 20

_ROOM = struct.Struct("!I")


class StreamReset(Exception):
    """The stream was given up, by the other side or with the line."""


class Stream:
    """One stream, in both directions; made by :class:`Streams`."""

    def __init__(self, number: int, streams: Streams) -> None:
        self.number = number
        self._streams = streams
        self._received: deque[bytes] = deque()
        self._pending_bytes = 0  # received and not yet read
        self._returnable_bytes = 0  # read, and room for them not yet given back
        self._room_bytes = WINDOW_BYTES
        self._has_ended = False
        self._has_sent_end = False
        self._is_reset = False
        self._changed = asyncio.Event()

    async def read(self) -> bytes:
        """Return what came next, ``b""`` at the end.

        Raises:
            StreamReset: The stream was given up.
        """
        while not (self._received or self._has_ended):
            await self._change()
        if self._is_reset:
            raise StreamReset
        if not self._received:
            return b""
        data = self._received.popleft()
        self._pending_bytes -= len(data)
        self._give_room(len(data))
        return data

    async def write(self, data: bytes) -> None:
        """Send bytes, as the other side makes room for them.

        Raises:
            StreamReset: The stream was given up.
        """
        rest = memoryview(data)
        while rest:
            while self._room_bytes == 0 or self._is_reset:
                await self._change()
            chunk = bytes(rest[: min(CHUNK_BYTES, self._room_bytes)])
            self._room_bytes -= len(chunk)
            rest = rest[len(chunk) :]
            self._streams.send(Kind.DATA, self.number, chunk)
            await self._streams.drain()

    def end(self) -> None:
        """Say that no more bytes come from this side."""
        if not (self._has_sent_end or self._is_reset):
            self._has_sent_end = True
            self._streams.send(Kind.END, self.number)
            self._forget_if_over()

    def reset(self) -> None:
        """Give the stream up, in both directions; does nothing on one that is over."""
        if not (self._is_reset or (self._has_sent_end and self._has_ended)):
            self._streams.send(Kind.RESET, self.number)
            self.break_off()

    def take(self, frame: Frame) -> None:
        """Take in what the other side sent on this stream."""
        if frame.kind is Kind.DATA:
            self._take_data(frame.payload)
        elif frame.kind is Kind.ROOM:
            self._room_bytes += _ROOM.unpack(frame.payload)[0]
        elif frame.kind is Kind.END:
            self._has_ended = True
            self._forget_if_over()
        else:
            self.break_off()
        self._changed.set()

    def break_off(self) -> None:
        """Tell readers and writers that the other end is gone."""
        self._is_reset = True
        self._received.clear()
        self._changed.set()
        self._streams.forget(self.number)

    def _take_data(self, data: bytes) -> None:
        self._pending_bytes += len(data)
        if self._pending_bytes > WINDOW_BYTES:
            raise FrameError(f"stream {self.number} sent more than the {WINDOW_BYTES} bytes that there was room for")
        self._received.append(data)

    def _give_room(self, size: int) -> None:
        self._returnable_bytes += size
        if self._returnable_bytes >= WINDOW_BYTES // 4 and not self._has_ended:
            self._streams.send(Kind.ROOM, self.number, _ROOM.pack(self._returnable_bytes))
            self._returnable_bytes = 0

    def _forget_if_over(self) -> None:
        if self._has_sent_end and self._has_ended:
            self._streams.forget(self.number)

    async def _change(self) -> None:
        """Wait until something has come.

        Raises:
            StreamReset: The stream was given up.
        """
        if self._is_reset:
            raise StreamReset
        self._changed.clear()
        await self._changed.wait()
        if self._is_reset:
            raise StreamReset


class Streams:
    """All streams of one line.

    Args:
        send: Sends a frame's bytes without waiting.
        drain: Waits until the line has room for more.
    """

    def __init__(self, send: Callable[[bytes], None], drain: Callable[[], Awaitable[None]]) -> None:
        self._send = send
        self._streams: dict[int, Stream] = {}
        self.drain = drain

    def __len__(self) -> int:
        return len(self._streams)

    def open(self, number: int) -> Stream:
        """Return a new stream; the other side opens it under the same number."""
        stream = self._streams[number] = Stream(number, self)
        return stream

    def take(self, frame: Frame) -> None:
        """Hand a frame to its stream; one for a stream that is over says nothing new.

        Raises:
            FrameError: The other side broke the rules.
        """
        stream = self._streams.get(frame.number)
        if stream is not None:
            stream.take(frame)

    def send(self, kind: Kind, number: int, payload: bytes = b"") -> None:
        """Send a frame of a stream."""
        self._send(encode(kind, number, payload))

    def forget(self, number: int) -> None:
        """Drop a stream that is over."""
        self._streams.pop(number, None)

    def break_off(self) -> None:
        """End all streams: the line is gone."""
        for stream in list(self._streams.values()):
            stream.break_off()
