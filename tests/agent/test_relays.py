"""Ports on the machine's loopback that lead to the launcher's side."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time

from tests.agent.workbench import NOBODY, agent_here, needs_root, python, run, spawn

CLIENT = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(sys.argv[2].encode())
    connection.shutdown(socket.SHUT_WR)
    while data := connection.recv(65536):
        os.write(1, data)
"""


@contextlib.asynccontextmanager
async def echo():
    """A server that returns what it got, once it got it all; and its port."""
    connections = []

    async def serve(reader, writer):
        connections.append(writer)
        writer.write(await reader.read(-1))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], connections
    server.close()


def test_workers_reach_the_launchers_side():
    async def test():
        async with echo() as (port, connections), agent_here() as (agent, events):
            here = await agent.relay("127.0.0.1", port)
            assert here != port
            for rank in range(4):
                await agent.spawn(rank, [*python(CLIENT), str(here), f"hello {rank}"], {}, "/")
            for rank in range(4):
                assert await events.exit_of(rank) == (0, None)
                assert events.text(rank).decode() == f"hello {rank}"
            assert len(connections) == 4

    run(test())


@needs_root
def test_other_users_of_the_machine_reach_nothing_and_take_no_room():
    """They held as many connections as an agent passes on, and its workers could not begin."""
    stranger = f"import encodings.idna, os, socket\nos.setuid({NOBODY})\n"
    many = "held = [socket.create_connection(('127.0.0.1', int(sys.argv[1]))) for _ in range(600)]"
    holds = f"import sys, time\n{many}\nos.write(1, b'hold')\ntime.sleep(60)"

    async def test():
        async with echo() as (port, connections), agent_here() as (agent, events):
            here = await agent.relay("127.0.0.1", port)
            for rank, text in enumerate((CLIENT, holds)):
                await agent.spawn(rank, [*python(stranger + text), str(here), "let me in"], {}, "/")
            await events.exit_of(0)
            await events.until(lambda: b"hold" in events.text(1))
            await agent.spawn(2, [*python(CLIENT), str(here), "hello"], {}, "/")
            assert await events.exit_of(2) == (0, None)
            assert (events.text(0).count(b"let me in"), events.text(2)) == (0, b"hello")
            assert len(connections) == 1

    run(test())


async def exchange(reader, writer) -> str:
    """Send 64 MB while as much is received; returns the hash of what came."""

    async def send():
        for number in range(64):
            writer.write(bytes([number]) * (1 << 20))
            await writer.drain()
        writer.write_eof()

    sending = asyncio.ensure_future(send())
    received = hashlib.sha256()
    while data := await reader.read(1 << 20):
        received.update(data)
    await sending
    writer.close()
    return received.hexdigest()


def test_much_passes_in_both_directions_and_starves_nobody():
    expected = hashlib.sha256(b"".join(bytes([number]) * (1 << 20) for number in range(64))).hexdigest()

    async def test():
        async with agent_here() as (agent, events):
            there: asyncio.Future[str] = asyncio.get_running_loop().create_future()

            async def serve(*ends):
                there.set_result(await exchange(*ends))

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            here = await agent.relay("127.0.0.1", server.sockets[0].getsockname()[1])
            exchanging = asyncio.ensure_future(exchange(*await asyncio.open_connection("127.0.0.1", here)))
            await spawn(agent, "echo fine")
            await events.exit_of()
            assert not exchanging.done()
            assert await exchanging == await there == expected
            server.close()

    run(test())


def test_a_connection_that_is_not_read_holds_up_nothing_else():
    async def test():
        async with agent_here() as (agent, events):

            async def serve(reader, writer):
                with contextlib.suppress(OSError):
                    while True:
                        writer.write(bytes(65536))
                        await writer.drain()

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            here = await agent.relay("127.0.0.1", server.sockets[0].getsockname()[1])
            _, writer = await asyncio.open_connection("127.0.0.1", here)
            await asyncio.sleep(1.0)
            async with echo() as (port, _):
                other = await agent.relay("127.0.0.1", port)
                await agent.spawn(0, [*python(CLIENT), str(other), "hello"], {}, "/")
                assert await events.exit_of() == (0, None)
                assert events.text() == b"hello"
            writer.close()
            server.close()

    run(test())


def test_where_nobody_listens_the_connection_ends():
    async def test():
        async with echo() as (port, _):
            pass
        async with agent_here() as (agent, events):
            here = await agent.relay("127.0.0.1", port)
            await agent.spawn(0, [*python(CLIENT), str(here), "hello"], {}, "/")
            exit_code, _ = await events.exit_of()
            assert exit_code in (0, 1)  # an empty answer, or a reset
            assert events.text() == b""

    run(test())


def test_open_connections_end_with_the_agent():
    async def test():
        async with echo() as (port, connections):
            async with agent_here() as (agent, _):
                here = await agent.relay("127.0.0.1", port)
                reader, writer = await asyncio.open_connection("127.0.0.1", here)
                writer.write(b"x")
                while not connections:
                    await asyncio.sleep(0.01)
            began = time.monotonic()
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            assert time.monotonic() - began < 30
            writer.close()

    run(test())
