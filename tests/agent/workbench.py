"""What the tests of the agent share: who notes events, agents on this machine, workers that are hard to end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import pytest

from autodist.agent import Agent
from autodist.remote import Channel, LocalTransport, Machine

LONGEST_S = 60.0  # only there so that nothing hangs
HERE = Machine("here")
NOBODY = 65534
NOBODYS_PYTHON = "/usr/bin/python3"

STUBBORN = """
trap '' TERM HUP INT
setsid sh -c 'trap "" TERM; sleep 1000; sleep 1000' &
nohup sleep 1000 > /dev/null 2>&1 &
(setsid sh -c 'sleep 1000; true' > /dev/null 2>&1 &)
( (sleep 1000; true) & )
sleep 0.1
echo ready
sleep 1000
sleep 1000
"""
"""A worker that ignores TERM and has children in its own session, in others, detached and orphaned."""

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
needs_nobody = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists(NOBODYS_PYTHON),
    reason=f"only root can become another user, who needs {NOBODYS_PYTHON}",
)


class Recorder:
    """Notes what an agent reports."""

    def __init__(self) -> None:
        self.exits: list[tuple[int, int | None, str | None]] = []
        self.losses: list[str] = []
        self.order: list[str] = []
        self._outputs: dict[tuple[int, bool], bytearray] = {}
        self._changed = asyncio.Event()

    def output(self, rank: int, is_error: bool, data: bytes) -> None:
        self._outputs.setdefault((rank, is_error), bytearray()).extend(data)
        self._note("output")

    def exited(self, rank: int, exit_code: int | None, signal: str | None) -> None:
        self.exits.append((rank, exit_code, signal))
        self._note("exited")

    def lost(self, machine: Machine, reason: str) -> None:
        self.losses.append(reason)
        self._note("lost")

    def text(self, rank: int = 0, is_error: bool = False) -> bytes:
        return bytes(self._outputs.get((rank, is_error), b""))

    async def until(self, condition) -> None:
        """Wait until something that was noted makes the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def exit_of(self, rank: int = 0) -> tuple[int | None, str | None]:
        await self.until(lambda: any(exit[0] == rank for exit in self.exits))
        return next(exit[1:] for exit in self.exits if exit[0] == rank)

    def _note(self, name: str) -> None:
        self.order.append(name)
        self._changed.set()


class AsNobody(LocalTransport):
    """Runs programs as another user, who may not even read this one's home."""

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        return await super().open(machine, [*user, *argv], timeout_s)


def run(test: Coroutine[Any, Any, Any]) -> Any:
    """Run a test that has to wait, but not for ever."""
    return asyncio.run(asyncio.wait_for(test, LONGEST_S))


@contextlib.asynccontextmanager
async def agent_here(**settings: Any) -> AsyncIterator[tuple[Agent, Recorder]]:
    """An agent on this machine, and what it reports."""
    events = Recorder()
    transport = settings.pop("transport", None) or LocalTransport()
    machine = settings.pop("machine", HERE)
    settings = {"run_id": "test", "heartbeat_s": 30.0, "grace_s": 2.0, "timeout_s": LONGEST_S, **settings}
    agent = await Agent.start(transport, machine, events=events, **settings)
    try:
        yield agent, events
    finally:
        await agent.close()


async def spawn(agent: Agent, script: str, rank: int = 0, env: dict[str, str] | None = None, cwd: str = "/") -> int:
    """Start a shell script as a worker."""
    return await agent.spawn(rank, ["sh", "-c", script], env or {}, cwd)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait for something that may take a moment."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not come within {timeout_s:g} s"
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:  # also ESRCH, if it ends between the opening and the reading
        return False
