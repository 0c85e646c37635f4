"""Agents on machines that are reached through real sshds."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autodist.testing import EmulatedCluster

pytestmark = pytest.mark.emulated

ROOT = str(Path(__file__).parents[2])
USERS = pytest.mark.parametrize("user", ["root", "trainer"])
ROADS = pytest.mark.parametrize("road", ["asyncssh", "ssh"])
SLACK_S = 20.0
EVERYTHING = """
import asyncio, json, sys
from autodist.agent import Agent
from autodist.remote import Machine
from tests.agent.client import TRANSPORTS
from tests.agent.workbench import Recorder, run, spawn

async def test():
    transport, events = TRANSPORTS[sys.argv[1]](), Recorder()
    agent = await Agent.start(transport, Machine("h1"), run_id="test", events=events, heartbeat_s=30.0)
    async def serve(reader, writer):
        writer.write(await reader.read(-1))
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = await agent.relay("127.0.0.1", server.sockets[0].getsockname()[1])
    data = bytes(range(256)) * 40_000
    await agent.put("data", data)
    code = (
        "import socket; c = socket.create_connection(('127.0.0.1', %d)); c.sendall(open('data', 'rb').read()); "
        "c.shutdown(1); open('copy', 'wb').write(b''.join(iter(lambda: c.recv(65536), b'')))"
    )
    await agent.spawn(0, [agent.greeting.executable, "-c", code % port], {}, agent.directory)
    exit = await events.exit_of()
    files = (await agent.fetch()).files
    await spawn(agent, "hostname; whoami; echo $SECRET; cat; sleep 1000", 1, {"SECRET": "it's \\"quoted\\""})
    await events.until(lambda: b"quoted" in events.text(1))
    left = await agent.stop()
    await agent.close()
    await transport.close()
    print(json.dumps({
        "host": agent.greeting.host_name, "user": agent.greeting.user, "exit": exit, "left": left,
        "error": events.text(is_error=True).decode(), "copied": files["copy"] == files["data"] == data,
        "said": events.text(1).decode(), "losses": events.losses, "ends": events.exits[1:],
        "directory": agent.directory,
    }))

run(test())
"""


@pytest.mark.parametrize(
    ("road", "user"),
    [
        ("asyncssh", "trainer"),
        ("ssh", "root"),
        pytest.param("asyncssh", "root", marks=pytest.mark.slow),
        pytest.param("ssh", "trainer", marks=pytest.mark.slow),
    ],
)
def test_everything_works_over_ssh(emulate, road: str, user: str):
    cluster = emulate(1)
    done = cluster.run(
        "head", [sys.executable, "-c", EVERYTHING, road], user=user, env={"PYTHONPATH": ROOT}, timeout_s=100
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["host"], told["user"]) == ("h1", user)
    assert (told["exit"], told["error"], told["copied"]) == ([0, None], "", True)
    assert told["said"] == f'h1\n{user}\nit\'s "quoted"\n'
    assert (told["ends"], told["left"], told["losses"]) == ([[1, None, "SIGTERM"]], [], [])
    assert nothing_is_left(cluster, told)


@contextlib.contextmanager
def a_client(cluster: EmulatedCluster, road: str, user: str, **settings):
    """A launcher on `head` with stubborn workers on h1, and what it says."""
    settings = {"road": road, "address": "h1", "python": None, "workers": 2, "is_flooded": False, **settings}
    settings = {"heartbeat_s": 60.0, "grace_s": 0.5, **settings}
    argv = [sys.executable, "-m", "tests.agent.client", json.dumps(settings)]
    command = cluster.command("head", argv, user=user, env={"PYTHONPATH": ROOT})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        told = json.loads(process.stdout.readline())
        assert len(cluster.processes("h1")) >= 2 * 5 + 2
        yield process, told
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def kill(cluster: EmulatedCluster, host: str, pattern: str, signum: int) -> None:
    """Send a signal to the process on a host whose command line has this in it."""
    (pid,) = [pid for pid, text in cluster.processes(host).items() if pattern in text and "python" in text]
    subprocess.run(["kill", f"-{int(signum)}", str(pid)], check=True)


def nothing_is_left(cluster: EmulatedCluster, told: dict) -> bool:
    deadline = time.monotonic() + SLACK_S
    directory = cluster.disk("h1") / told["directory"].lstrip("/")
    while time.monotonic() < deadline:
        left = cluster.processes("h1")
        if not left and not directory.exists():
            return True
        time.sleep(0.1)
    print(left, directory.exists())
    return False


@pytest.mark.slow
@ROADS
@USERS
def test_nothing_is_left_when_the_client_is_killed(emulate, road: str, user: str):
    cluster = emulate(1)
    with a_client(cluster, road, user) as (_, told):
        kill(cluster, "head", "tests.agent.client", signal.SIGKILL)
        assert nothing_is_left(cluster, told)


@pytest.mark.slow
@ROADS
@USERS
def test_nothing_is_left_when_the_agent_is_killed_and_the_client_learns_it(emulate, road: str, user: str):
    cluster = emulate(1)
    with a_client(cluster, road, user) as (process, told):
        assert cluster.run("h1", ["kill", "-9", str(told["holder"])]).returncode == 0
        assert "signal 9" in json.loads(process.stdout.readline())["lost"]
        assert nothing_is_left(cluster, told)
        assert process.wait(SLACK_S) == 0


@pytest.mark.slow
@ROADS
def test_nothing_is_left_on_a_machine_that_is_cut_off(emulate, road: str):
    cluster = emulate(1)
    with a_client(cluster, road, "trainer", heartbeat_s=2.0) as (process, told):
        cluster.cut("h1")
        assert json.loads(process.stdout.readline())["lost"]
        assert nothing_is_left(cluster, told)
        process.wait(2 * SLACK_S)
