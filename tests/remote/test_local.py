"""Programs on this machine, and which machines a spec has."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time

import pytest

from autodist.errors import HostUnreachable, LaunchError
from autodist.remote import LocalTransport, Machine, machines_of, open_subprocess
from autodist.resource_spec import Host, ResourceSpec, Ssh

HERE = Machine("here")
CAT = (
    "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.write('ended'); sys.exit(3)"
)


def run(test):
    return asyncio.run(asyncio.wait_for(test, 60.0))


async def whole(read) -> bytes:
    found = b""
    while more := await read():
        found += more
    return found


def test_machines_are_told_apart_by_address_and_login():
    hosts = (
        Host("a", "a", python="/a/python", directory="/data"),
        Host("a#1", "a"),
        Host("b", "b", ssh=Ssh(port=2201)),
        Host("b#1", "b", ssh=Ssh(port=2202)),
        Host("b#2", "b", ssh=Ssh(port=2201)),
    )
    machines = machines_of(ResourceSpec(hosts))
    assert [(str(machine), ranks) for machine, ranks in machines.items()] == [("a", (0, 1)), ("b", (2, 4)), ("b", (3,))]
    first = next(iter(machines))
    assert (first.python, first.directory, first.ssh) == ("/a/python", "/data", None)
    assert [machine.ssh.port for machine in machines if machine.ssh] == [2201, 2202]


def test_programs_have_three_streams_and_an_end():
    given = os.urandom(1 << 20)

    async def test():
        channel = await LocalTransport().open(HERE, [sys.executable, "-c", CAT], 10.0)
        channel.write(given)
        await channel.drain()
        closing = asyncio.ensure_future(channel.close())
        assert await asyncio.gather(whole(channel.read), whole(channel.read_error)) == [given, b"ended"]
        await closing
        assert await channel.wait() == 3
        channel.write(b"more")  # neither of which fails
        await channel.drain()
        await channel.close()

    run(test())


def test_the_environment_is_this_ones_or_the_given_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MARK", "own")

    async def test():
        for env, expected in ((None, b"own"), ({"MARK": "given"}, b"given"), ({}, b"")):
            channel = await LocalTransport(env).open(HERE, ["/bin/sh", "-c", "printf '%s' \"$MARK\""], 10.0)
            assert await whole(channel.read) == expected
            await channel.close()

    run(test())


@pytest.mark.parametrize(("argv", "reason"), [("/no/such/program", "No such file"), ("/etc", "Permission denied")])
def test_what_cannot_be_started_is_told(argv: str, reason: str):
    async def test():
        with pytest.raises(HostUnreachable, match=f"`{argv}` can't be started on `here`: {reason}") as caught:
            await LocalTransport().open(HERE, [argv], 10.0)
        assert "`python`" in caught.value.hint
        assert caught.value.address == "here"
        assert isinstance(caught.value, LaunchError)

    run(test())


def test_a_road_is_killed_and_a_program_that_may_have_to_clean_up_is_not():
    stubborn = ["sh", "-c", "trap '' TERM; echo ready; while true; do sleep 0.05; done"]

    async def test():
        for is_road in (True, False):
            channel = await open_subprocess(stubborn, is_road=is_road)
            assert await channel.read() == b"ready\n"
            began = time.monotonic()
            await channel.close()
            assert time.monotonic() - began < 30
            if is_road:
                assert await channel.wait() == -signal.SIGKILL
            else:
                os.kill(channel.pid, 0)
                os.kill(channel.pid, signal.SIGKILL)
                assert await channel.wait() == -signal.SIGKILL

    run(test())
