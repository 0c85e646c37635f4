"""However a run ends, nothing of it is left on the machine, and nothing else is touched."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from autodist.remote import Channel, LocalTransport, Machine
from tests.agent.workbench import NOBODYS_PYTHON, STUBBORN, agent_here, is_alive, needs_nobody, needs_root, run, spawn
from tests.processes import marked

MODES = pytest.mark.parametrize(
    "mode",
    [
        pytest.param({}, id="plain"),
        pytest.param({"isolate": True}, id="isolated", marks=needs_root),
        pytest.param(
            {"road": "nobody", "python": NOBODYS_PYTHON},
            id="nobody",
            marks=[pytest.mark.slow, needs_nobody],
        ),
    ],
)
SLACK_S = 20.0  # beyond the bounds, on a machine that has much else to do


class Client:
    """A launcher in a process of its own, with an agent and two stubborn workers."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str) -> None:
        self.process = process
        self._mark = mark
        self.told: dict[str, Any] = json.loads(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def end(self, name: str, signum: int) -> None:
        os.kill(self.process.pid if name == "client" else self.told[name], signum)

    def leaves_nothing(self, *but: int) -> bool:
        """Wait until of all that carries the mark only `but` is alive, and the directory is gone."""
        deadline = time.monotonic() + SLACK_S
        while time.monotonic() < deadline:
            left = [text for text in marked(self._mark) if int(text.split()[0]) not in but]
            if not left and not Path(self.told["directory"]).exists():
                return True
            time.sleep(0.05)
        print(left, self.told, Path(self.told["directory"]).exists())
        return False


@contextlib.contextmanager
def a_client(mark: str, **settings: Any) -> Iterator[Client]:
    settings = {"road": "here", "address": "here", "python": None, "workers": 2, "is_flooded": False, **settings}
    settings = {"heartbeat_s": 60.0, "grace_s": 0.5, **settings}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.agent.client", json.dumps(settings)], stdout=subprocess.PIPE
    )
    try:
        client = Client(process, mark)
        assert client.told["is_isolated"] == bool(settings.get("isolate"))
        assert client.told["user"] == ("nobody" if settings["road"] == "nobody" else client.told["user"])
        assert len(marked(mark)) >= 5 * settings["workers"] + 3
        yield client
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@MODES
@pytest.mark.parametrize(
    ("who", "signum"),
    [
        ("client", signal.SIGKILL),
        ("holder", signal.SIGKILL),
        ("guard", signal.SIGKILL),
        pytest.param("guard", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("client", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("guard", signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param("guard", signal.SIGINT, marks=pytest.mark.slow),
        pytest.param("holder", signal.SIGTERM, marks=pytest.mark.slow),
        pytest.param("holder", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_nothing_is_left_whoever_is_ended(mark: str, mode: dict[str, Any], who: str, signum: int):
    with a_client(mark, **mode) as client:
        client.end(who, signum)
        if who == "client":
            assert client.leaves_nothing()
        else:
            lost = json.loads(client.line())["lost"]
            assert ("was killed" if who == "guard" else "signal 9") in lost or signal.Signals(signum).name in lost
            assert client.process.wait(SLACK_S) == 0
            assert client.leaves_nothing()


@needs_root
def test_in_a_namespace_nothing_is_left_even_if_both_processes_of_the_agent_are_killed(mark: str):
    with a_client(mark, isolate=True) as client:
        client.end("guard", signal.SIGKILL)
        client.end("holder", signal.SIGKILL)
        client.line()
        Path(client.told["directory"], ".lock").unlink()  # only the next agent would remove it
        shutil.rmtree(client.told["directory"])
        assert client.leaves_nothing()


def test_nothing_is_left_after_the_client_was_silent_for_too_long(mark: str):
    with a_client(mark, heartbeat_s=1.5) as client:
        client.end("client", signal.SIGSTOP)
        assert client.leaves_nothing(client.process.pid)
        client.end("client", signal.SIGCONT)
        assert "nothing was heard of the launcher for 1.5 s" in json.loads(client.line())["lost"]
        assert client.process.wait(SLACK_S) == 0


@pytest.mark.slow
def test_nothing_is_left_after_the_agent_was_silent_for_too_long(mark: str):
    with a_client(mark, heartbeat_s=1.5) as client:
        client.end("holder", signal.SIGSTOP)
        assert json.loads(client.line())["lost"] == "nothing was heard of it for 1.5 s"
        client.process.wait(SLACK_S)
        client.end("holder", signal.SIGCONT)
        assert client.leaves_nothing()


@pytest.mark.slow
def test_a_holder_that_is_stuck_is_killed_by_its_guard(mark: str):
    with a_client(mark, heartbeat_s=1.0) as client:
        client.end("holder", signal.SIGSTOP)
        client.line()
        time.sleep(1.0 + 0.5 + 5.0 + 10.0)
        assert client.leaves_nothing()


def test_a_flooded_client_that_stands_still_stops_nothing(mark: str):
    with a_client(mark, heartbeat_s=3.0, workers=1, is_flooded=True) as client:
        client.end("client", signal.SIGSTOP)
        time.sleep(1.5)
        status = Path(f"/proc/{client.told['holder']}/status").read_text()
        assert int(status.partition("VmRSS:")[2].split()[0]) < 100_000  # kB
        assert client.leaves_nothing(client.process.pid)


def test_a_signal_to_the_group_of_the_agent_is_not_the_end_of_both(mark: str):
    with a_client(mark) as client:
        os.killpg(client.told["guard"], signal.SIGKILL)
        assert "was killed" in json.loads(client.line())["lost"]
        assert client.leaves_nothing()


def test_a_client_that_lives_but_reads_nothing_stops_nothing(mark: str):
    class Deaf(LocalTransport):
        async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
            channel = await super().open(machine, argv, timeout_s)
            read = channel.read

            async def read_if_not_deaf(most_bytes: int = 65536) -> bytes:
                await hears.wait()
                return await read(most_bytes)

            monkeypatch.setattr(channel, "read", read_if_not_deaf)
            return channel

    async def test() -> None:
        async with agent_here(transport=Deaf(), grace_s=0.5) as (agent, events):
            await spawn(agent, "trap '' TERM; exec yes")
            await events.until(lambda: events.text())
            hears.clear()
            await asyncio.sleep(1.0)
            os.kill(agent.greeting.guard_pid, signal.SIGTERM)
            while is_alive(agent.greeting.guard_pid):
                await asyncio.sleep(0.05)
            assert not is_alive(agent.greeting.holder_pid)
            hears.set()

    hears = asyncio.Event()
    hears.set()
    with pytest.MonkeyPatch.context() as monkeypatch:
        run(test())


def test_only_descendants_are_ended(mark: str):
    bystander = subprocess.Popen(["sh", "-c", STUBBORN], stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert bystander.stdout.readline() == b"ready\n"
        with a_client(mark) as client:
            others = [int(text.split()[0]) for text in marked(mark) if os.getsid(int(text.split()[0])) == bystander.pid]
            assert bystander.pid in others
            everybody = _below_or_detached(mark, client)
            client.end("client", signal.SIGKILL)
            assert client.leaves_nothing(*everybody)
            assert is_alive(bystander.pid)
            assert all(is_alive(pid) for pid in everybody)
    finally:
        for text in marked(mark):
            os.kill(int(text.split()[0]), signal.SIGKILL)
        bystander.wait()
        bystander.stdout.close()


def _below_or_detached(mark: str, client: Client) -> set[int]:
    """The processes with the mark that do not descend from the client's agent."""
    parents = {}
    for text in marked(mark):
        pid = int(text.split()[0])
        parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def descends(pid: int) -> bool:
        return pid == client.process.pid or (pid in parents and descends(parents[pid]))

    return {pid for pid in parents if not descends(pid)}
