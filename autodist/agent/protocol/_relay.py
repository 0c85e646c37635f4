"""Joining a connection with a stream, on both sides of the line."""

from __future__ import annotations

import asyncio

from autodist.agent.protocol._frames import CHUNK_BYTES
from autodist.agent.protocol._streams import Stream, StreamReset

__all__ = ["join"]


async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stream: Stream) -> None:
    """Carry bytes in both directions until both have ended; what breaks one side breaks the other."""
    directions = [
        asyncio.ensure_future(_to_stream(reader, stream)),
        asyncio.ensure_future(_from_stream(stream, writer)),
    ]
    try:
        await asyncio.gather(*directions)
        writer.close()
    except (OSError, StreamReset):
        writer.transport.abort()
    finally:
        for direction in directions:
            direction.cancel()
        stream.reset()
        writer.close()


async def _to_stream(reader: asyncio.StreamReader, stream: Stream) -> None:
    while data := await reader.read(CHUNK_BYTES):
        await stream.write(data)
    stream.end()


async def _from_stream(stream: Stream, writer: asyncio.StreamWriter) -> None:
    while data := await stream.read():
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
