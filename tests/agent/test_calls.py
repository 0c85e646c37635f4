"""Functions of the agent's modules, called by name on the machine."""

from __future__ import annotations

import asyncio

import pytest

from autodist.agent.client import _sources
from autodist.errors import LaunchError, TimedOut
from tests.agent.workbench import agent_here, run, spawn

FACTS = """
import subprocess, threading, time
__all__ = ["add", "fail", "leave", "run", "wait", "whose"]
def add(a, b=0): return {"sum": a + b}
def fail(): raise ValueError("no such thing")
def leave(): raise SystemExit(3)
def run(argv): return subprocess.run(argv, capture_output=True, text=True).stdout
def wait(seconds): time.sleep(seconds)
def whose(): return threading.current_thread().name
def _private(): return 1
def what(): return object()
"""


@pytest.fixture(autouse=True)
def facts(monkeypatch: pytest.MonkeyPatch):
    """Send these functions instead of the agent's own."""
    sources = {**_sources.sources(), "autodist.agent.machine._facts": FACTS + "\n__all__.append('what')"}
    monkeypatch.setattr(_sources, "sources", lambda: sources)


def test_results_come_back():
    async def test():
        async with agent_here() as (agent, _):
            assert await agent.call("facts.add", a=1, b=2) == {"sum": 3}
            assert await agent.call("facts.add", a="ü", b="\n") == {"sum": "ü\n"}
            assert await agent.call("facts.whose") == "facts.whose"
            assert await agent.call("facts.run", argv=["echo", "a b"]) == "a b\n"
            found = await asyncio.gather(*(agent.call("facts.add", a=number) for number in range(50)))
            assert found == [{"sum": number} for number in range(50)]

    run(test())


WRONG = [
    ("facts.fail", {}, "on `here`: `facts.fail` failed: ValueError: no such thing"),
    ("facts.leave", {}, "`facts.leave` failed: SystemExit: 3"),
    ("facts.add", {}, "TypeError"),
    ("facts.add", {"a": 1, "c": 2}, "TypeError"),
    ("facts.what", {}, "can't be sent as JSON"),
    ("facts._private", {}, "has no function `_private`"),
    ("facts.subprocess", {}, "has no function `subprocess`"),
    ("facts", {}, "has no function ``"),
    ("os.getpid", {}, "has no functions `os`"),
    ("guard.main", {}, "has no functions `guard`"),
]


def test_what_goes_wrong_is_told_and_the_agent_goes_on():
    async def test():
        async with agent_here() as (agent, events):
            for name, arguments, expected in WRONG:
                with pytest.raises(LaunchError) as caught:
                    await agent.call(name, **arguments)
                assert expected in caught.value.message, name
            assert await agent.call("facts.add", a=1) == {"sum": 1}
            assert events.losses == []

    run(test())


def test_a_call_takes_no_longer_than_it_may_and_holds_up_nothing():
    async def test():
        async with agent_here() as (agent, events):
            waiting = asyncio.ensure_future(agent.call("facts.wait", seconds=1000, timeout_s=8.0))
            await spawn(agent, "echo fine")
            assert await events.exit_of() == (0, None)
            assert not waiting.done()
            with pytest.raises(TimedOut, match=r"`facts.wait` did not return within 8 s"):
                await waiting

    run(test())


def test_arguments_that_json_cannot_hold_are_refused_here():
    async def test():
        async with agent_here() as (agent, _):
            with pytest.raises(LaunchError, match="can't be asked of `here`"):
                await agent.call("facts.add", a=object())

    run(test())


SLOW_SITE = "import time\n__all__ = ['ping']\ndef ping(): time.sleep(1.0)\n"


@pytest.mark.parametrize(("within_s", "losses"), [(0.2, 1), (30.0, 0)])
def test_a_machine_is_lost_if_it_does_not_answer_in_the_time_that_it_is_given(monkeypatch, within_s, losses):
    sources = {**_sources.sources(), "autodist.agent.machine._site": SLOW_SITE}
    monkeypatch.setattr(_sources, "sources", lambda: sources)

    async def test():
        async with agent_here() as (agent, events):
            await agent.check(within_s)
            assert len(events.losses) == losses
            assert all(f"did not answer within {within_s:g} s" in reason for reason in events.losses)

    run(test())
