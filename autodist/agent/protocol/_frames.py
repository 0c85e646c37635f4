"""Frames that travel between launcher and agent: a kind, a number and bytes; runs on both sides.

A frame is one byte for its kind, four for its number, four for the length of what follows, all big-endian, and then
the payload. What the number means depends on the kind.
"""

from __future__ import annotations

import enum
import json
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["CHUNK_BYTES", "MOST_BYTES", "Decoder", "Frame", "FrameError", "Kind", "encode", "encode_json"]

MOST_BYTES = 1 << 20
CHUNK_BYTES = 1 << 16  # of bulk data: other frames don't wait long behind it

_HEADER = struct.Struct("!BII")


class Kind(enum.IntEnum):
    """The purpose of a frame."""

    REQUEST = 1  # JSON to the agent; the number is the request's
    REPLY = 2  # JSON from the agent; the number is the request's
    EVENT = 3  # JSON from the agent
    OUTPUT = 4  # what a worker wrote; the number is twice its rank, plus 1 for standard error
    BEAT = 5  # "I am alive"; the agent answers with the same
    DATA = 6  # bytes of a stream; the number is the stream's, here and below
    ROOM = 7  # how many bytes more the other side may send on a stream
    END = 8  # no more bytes from this side on a stream
    RESET = 9  # a stream is given up


class FrameError(Exception):
    """The bytes that have come are not a frame, or too long for one."""


class Frame(NamedTuple):
    """One unit of what travels."""

    kind: Kind
    number: int
    payload: bytes

    def json(self) -> Any:
        """Return what the payload says.

        Raises:
            FrameError: It is not JSON.
        """
        try:
            return json.loads(self.payload)
        except ValueError as error:
            raise FrameError(f"a frame of kind {self.kind.name} is not JSON: {error}") from error


def encode(kind: Kind, number: int = 0, payload: bytes = b"") -> bytes:
    """Return a frame's bytes.

    Raises:
        FrameError: The payload has more than 1 MB.
    """
    if len(payload) > MOST_BYTES:
        raise FrameError(f"{len(payload)} bytes are too many for one message, {MOST_BYTES} are allowed")
    return _HEADER.pack(kind, number, len(payload)) + payload


def encode_json(kind: Kind, number: int, content: Any) -> bytes:
    """Return the bytes of a frame whose payload is JSON.

    Raises:
        FrameError: JSON can't hold the content, or it has more than 1 MB.
    """
    try:
        text = json.dumps(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise FrameError(f"this can't be sent as JSON: {error}") from error
    return encode(kind, number, text.encode())


class Decoder:
    r"""Makes frames of bytes that come in whatever pieces.

    Example:
        >>> decoder = Decoder()
        >>> data = encode(Kind.DATA, 7, b"abc")
        >>> list(decoder.feed(data[:5])), list(decoder.feed(data[5:]))[0].payload
        ([], b'abc')
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Return the frames that these bytes complete.

        Raises:
            FrameError: An unknown kind, or a length beyond the bound; nothing can be made of what follows.
        """
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            kind, number, length = _HEADER.unpack_from(self._buffer)
            if length > MOST_BYTES or not Kind.REQUEST <= kind <= Kind.RESET:
                raise FrameError(f"kind {kind} with {length} bytes is not a frame: {bytes(self._buffer[:60])!r}")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEADER.size : end])
            del self._buffer[:end]
            yield Frame(Kind(kind), number, payload)
