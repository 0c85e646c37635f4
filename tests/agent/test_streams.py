from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct

import pytest

from autodist.agent.protocol._frames import Decoder, Frame, FrameError, Kind
from autodist.agent.protocol._relay import join
from autodist.agent.protocol._streams import WINDOW_BYTES, Stream, StreamReset, Streams
from tests.agent.workbench import run


class Pair:
    """Two sides of a line, each with stream 1; what is sent arrives when `deliver` runs, or never if `is_cut`."""

    def __init__(self) -> None:
        self.sent_bytes = 0
        self._queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(), asyncio.Queue()]
        self.sides = [Streams(lambda data, side=side: self._send(side, data), self._drain) for side in (0, 1)]
        self.near, self.far = (side.open(1) for side in self.sides)

    def _send(self, side: int, data: bytes) -> None:
        self.sent_bytes += len(data)
        self._queues[1 - side].put_nowait(data)

    async def _drain(self) -> None:
        await asyncio.sleep(0)

    async def deliver(self, side: int) -> None:
        decoder = Decoder()
        while True:
            for frame in decoder.feed(await self._queues[side].get()):
                self.sides[side].take(frame)

    @contextlib.asynccontextmanager
    async def delivered(self):
        tasks = [asyncio.ensure_future(self.deliver(side)) for side in (0, 1)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()


async def read_all(stream: Stream) -> bytes:
    found = b""
    while data := await stream.read():
        found += data
    return found


def test_bytes_arrive_in_both_directions_and_nothing_is_kept_of_the_stream():
    async def test():
        pair = Pair()
        data = os.urandom(5 * WINDOW_BYTES + 17)
        async with pair.delivered():
            reading = asyncio.gather(read_all(pair.far), read_all(pair.near))
            await asyncio.gather(pair.near.write(data), pair.far.write(data[:99]))
            pair.near.end()
            pair.far.end()
            assert await reading == [data, data[:99]]
            await asyncio.sleep(0.01)
        assert [len(side) for side in pair.sides] == [0, 0]

    run(test())


def test_who_is_not_read_stops_at_the_window():
    async def test():
        pair = Pair()
        async with pair.delivered():
            writing = asyncio.ensure_future(pair.near.write(bytes(2 * WINDOW_BYTES)))
            while pair.sent_bytes < WINDOW_BYTES:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert not writing.done()
            assert WINDOW_BYTES <= pair.sent_bytes < WINDOW_BYTES * 1.01
            assert len(await pair.far.read()) > 0  # and goes on when somebody reads
            reading = asyncio.ensure_future(read_all(pair.far))
            await writing
            pair.near.end()
            await reading

    run(test())


@pytest.mark.parametrize("who", ["near", "far"])
def test_a_reset_ends_both_sides(who: str):
    async def test():
        pair = Pair()
        async with pair.delivered():
            reading = asyncio.ensure_future(pair.far.read())
            writing = asyncio.ensure_future(pair.near.write(bytes(2 * WINDOW_BYTES)))
            await reading
            reading = asyncio.ensure_future(read_all(pair.near))
            await asyncio.sleep(0.01)
            getattr(pair, who).reset()
            for task in (reading, writing):
                with pytest.raises(StreamReset):
                    await task
            with pytest.raises(StreamReset):
                await pair.far.read()
        assert [len(side) for side in pair.sides] == [0, 0]

    run(test())


def test_more_than_there_is_room_for_is_against_the_rules():
    async def test():
        pair = Pair()
        frame = Frame(Kind.DATA, 1, bytes(65536))
        for _ in range(WINDOW_BYTES // 65536):
            pair.sides[1].take(frame)
        with pytest.raises(FrameError, match="room"):
            pair.sides[1].take(frame)

    run(test())


def test_frames_of_streams_that_are_over_say_nothing():
    async def test():
        pair = Pair()
        for kind in (Kind.DATA, Kind.END, Kind.RESET):
            pair.sides[0].take(Frame(kind, 99, b""))

    run(test())


def test_a_joined_connection_that_breaks_breaks_its_stream():
    async def test():
        pair = Pair()
        async with pair.delivered():
            server = await asyncio.start_server(lambda *ends: join(*ends, pair.near), "127.0.0.1", 0)
            _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"some")
            assert await pair.far.read() == b"some"
            no_farewell = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_farewell)
            writer.close()
            with pytest.raises(StreamReset):
                await read_all(pair.far)
            server.close()

    run(test())
