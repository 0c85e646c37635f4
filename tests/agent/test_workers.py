"""What an agent does for workers, with real ones on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from autodist.agent.holder._environment import of_another_run
from autodist.carriers import Horovod
from autodist.coordination import WorkerEnvironment
from autodist.errors import HostUnreachable, LaunchError
from tests.agent.workbench import STUBBORN, agent_here, is_alive, needs_root, python, run, spawn, until
from tests.processes import text_of

BOTH = pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=needs_root)], ids=["", "isolated"])


@BOTH
def test_output_and_exit_codes_are_reported(isolate: bool):
    async def test():
        async with agent_here(isolate=isolate) as (agent, events):
            await spawn(agent, "echo out; echo err >&2; exit 3")
            await spawn(agent, "kill -SEGV $$", rank=1)
            assert await events.exit_of(0) == (3, None)
            assert await events.exit_of(1) == (None, "SIGSEGV")
            assert (events.text(), events.text(is_error=True)) == (b"out\n", b"err\n")
        assert events.losses == []

    run(test())


def test_what_a_worker_wrote_comes_before_its_end():
    async def test():
        async with agent_here() as (agent, events):
            size = 3_000_000
            await agent.spawn(0, python(f"import os; os.write(1, b'x' * {size})"), {}, "/")
            await events.exit_of()
            assert len(events.text()) == size
            assert events.order[-1] == "exited"

    run(test())


def test_lines_of_any_length_pass():
    async def test():
        async with agent_here() as (agent, events):
            await agent.spawn(0, python("print('x' * 1_000_000); print('y' * 1_000_000)"), {}, "/")
            assert await events.exit_of() == (0, None)
            assert events.text() == b"x" * 1_000_000 + b"\n" + b"y" * 1_000_000 + b"\n"

    run(test())


@BOTH
def test_a_worker_has_its_own_session_no_input_and_the_agent_as_parent(isolate: bool):
    async def test():
        code = "import os, sys; print(os.getsid(0) == os.getpid() != 1, repr(sys.stdin.read()), os.getppid())"
        async with agent_here(isolate=isolate) as (agent, events):
            pid = await agent.spawn(0, python(code), {}, "/")
            await events.exit_of()
            parent = 1 if isolate else agent.greeting.holder_pid
            assert events.text().decode() == f"True '' {parent}\n"
            assert agent.greeting.is_isolated == isolate
            assert pid not in (1, 2)

    run(test())


@BOTH
def test_process_ids_are_those_that_the_machine_sees(isolate: bool):
    async def test():
        async with agent_here(isolate=isolate) as (agent, _events):
            pid = await agent.spawn(0, ["sleep", "1000"], {}, "/")
            await until(lambda: text_of(Path(f"/proc/{pid}/comm")) == "sleep\n")  # it is there before its program
            for pid, name in ((agent.greeting.holder_pid, "holder"), (agent.greeting.guard_pid, "guard")):
                assert Path(f"/proc/{pid}/comm").read_text() == f"autodist-{name}\n"

    run(test())


def test_the_environment_is_the_agents_without_what_belongs_to_another_run(monkeypatch: pytest.MonkeyPatch):
    for name in ("RANK", "TF_CONFIG", "AUTODIST_TOKEN", "HOROVOD_RANK", "PMI_RANK", "MACHINES_OWN", "REPLACED"):
        monkeypatch.setenv(name, "stray")

    async def test():
        async with agent_here() as (agent, events):
            await spawn(agent, "env", env={"REPLACED": "new", "RANK": "7", "SPACE": "a b\n'\""})
            await events.exit_of()
            found = events.text().decode()
            assert "MACHINES_OWN=stray\n" in found
            assert "REPLACED=new\n" in found
            assert "\nRANK=7\n" in found
            assert "SPACE=a b\n'\"\n" in found
            assert f"AUTODIST_LAUNCHER_PID={agent.greeting.holder_pid}\n" in found
            for name in ("TF_CONFIG", "AUTODIST_TOKEN", "HOROVOD_RANK", "PMI_RANK"):
                assert name not in found

    run(test())


def test_nothing_that_a_launcher_sets_is_inherited():
    told = {*WorkerEnvironment(run_id="run").to_environ(), *Horovod.own_variables}
    kept_by_users = {"AUTODIST_ALLOW_OPEN_PORTS", "AUTODIST_STEP_TIMEOUT_S"}
    assert {name for name in told if not of_another_run(name)} == kept_by_users


def test_the_agents_own_variables_hold_nothing_secret(monkeypatch: pytest.MonkeyPatch):
    async def test():
        async with agent_here() as (agent, _events):
            pid = await agent.spawn(0, ["sleep", "1000"], {"AUTODIST_TOKEN": "s3cret"}, "/")
            await until(lambda: "s3cret" in text_of(Path(f"/proc/{pid}/environ")))
            for process in (agent.greeting.guard_pid, agent.greeting.holder_pid, pid):
                assert b"s3cret" not in Path(f"/proc/{process}/cmdline").read_bytes()

    run(test())


def test_the_working_directory_is_made(tmp_path: Path):
    async def test():
        async with agent_here() as (agent, events):
            await spawn(agent, "pwd", cwd=str(tmp_path / "a b" / "c'd"))
            await events.exit_of()
            assert events.text().decode() == f"{tmp_path}/a b/c'd\n"

    run(test())


def test_the_home_is_meant_by_a_tilde_and_by_a_relative_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))

    async def test():
        async with agent_here() as (agent, events):
            for rank, cwd in enumerate(("~/x", "x")):
                await spawn(agent, "pwd", rank, cwd=cwd)
                await events.exit_of(rank)
                assert events.text(rank).decode() == f"{tmp_path}/x\n"

    run(test())


@pytest.mark.parametrize(
    ("argv", "cwd", "expected"),
    [
        (["no such program"], "/", "`no such program`: No such file or directory"),
        (["/etc"], "/", "`/etc`: Permission denied"),
        (["true"], "/proc/x/y", "the working directory `/proc/x/y`: No such file or directory"),
        (["true"], "/etc/passwd/x", "the working directory `/etc/passwd/x`: Not a directory"),
        (["tr\0ue"], "/", "null byte"),
    ],
)
def test_what_cannot_be_started_is_told(argv: list[str], cwd: str, expected: str):
    async def test():
        async with agent_here() as (agent, events):
            with pytest.raises(LaunchError, match="worker 4 can't be started on `here`") as caught:
                await agent.spawn(4, argv, {}, cwd)
            assert expected in caught.value.message
            assert "`python` and `directory`" in caught.value.hint
            assert not isinstance(caught.value, HostUnreachable)
            await spawn(agent, "exit 5", rank=4)
            assert await events.exit_of(4) == (5, None)
            assert len(events.exits) == 1

    run(test())


def test_a_rank_runs_once_at_a_time():
    async def test():
        async with agent_here() as (agent, events):
            await spawn(agent, "sleep 1000")
            with pytest.raises(LaunchError, match="running already"):
                await spawn(agent, "true")
            agent.signal(0, signal.SIGKILL)
            await events.exit_of()
            await spawn(agent, "exit 4")
            await events.until(lambda: len(events.exits) == 2)
            assert events.exits == [(0, None, "SIGKILL"), (0, 4, None)]

    run(test())


@BOTH
def test_a_signal_reaches_the_worker_or_all_that_descends_from_it(isolate: bool):
    script = (
        "trap 'echo one' USR1; sh -c 'trap \"echo two\" USR1; {0}' & setsid sh -c 'trap \"echo three\" USR1; {0}' & {0}"
    )
    script = script.format("echo ready; while true; do sleep 0.05; done")

    async def test():
        async with agent_here(isolate=isolate) as (agent, events):
            await spawn(agent, script)
            await spawn(agent, "sleep 1000", rank=1)
            await events.until(lambda: events.text().count(b"ready") == 3)
            agent.signal(0, signal.SIGUSR1)
            await events.until(lambda: b"one" in events.text())
            await asyncio.sleep(0.3)
            assert events.text().split() == [b"ready"] * 3 + [b"one"]
            agent.signal(0, signal.SIGUSR1, everything=True)
            await events.until(lambda: events.text().count(b"one") == 2)
            await events.until(lambda: b"two" in events.text() and b"three" in events.text())
            agent.signal(77, signal.SIGKILL)  # a rank that never was
            assert events.exits == []

    run(test())


@BOTH
def test_stop_asks_first_and_kills_after_the_grace_time(isolate: bool):
    async def test():
        async with agent_here(isolate=isolate, grace_s=1.0) as (agent, events):
            await spawn(agent, STUBBORN)
            await spawn(agent, "trap 'echo asked; exit 9' TERM; echo ready; while true; do sleep 0.05; done", rank=1)
            await events.until(lambda: events.text() == events.text(1) == b"ready\n")
            began = time.monotonic()
            assert await agent.stop() == ()
            assert time.monotonic() - began >= 1.0
            assert sorted(events.exits) == [(0, None, "SIGKILL"), (1, 9, None)]
            assert events.text(1) == b"ready\nasked\n"
            await spawn(agent, "echo again", rank=2)  # the agent is there for the next attempt
            assert await events.exit_of(2) == (0, None)

    run(test())


def test_a_second_stop_cuts_the_grace_short():
    async def test():
        async with agent_here(grace_s=1000.0) as (agent, events):
            await spawn(agent, STUBBORN)
            await events.until(lambda: events.text() == b"ready\n")
            first = asyncio.ensure_future(agent.stop())
            await asyncio.sleep(0.2)
            assert not first.done()
            assert await agent.stop(now=True) == ()
            assert await first == ()
            assert events.exits == [(0, None, "SIGKILL")]

    run(test())


def test_stop_without_grace_kills_at_once():
    async def test():
        async with agent_here(grace_s=1000.0) as (agent, events):
            await spawn(agent, STUBBORN)
            await events.until(lambda: events.text() == b"ready\n")
            assert await agent.stop(now=True) == ()
            assert events.exits == [(0, None, "SIGKILL")]

    run(test())


@BOTH
def test_what_a_worker_leaves_behind_is_ended_too(mark: str, isolate: bool):
    async def test():
        async with agent_here(isolate=isolate, grace_s=0.5) as (agent, events):
            await spawn(agent, "setsid sleep 1000 & (nohup sleep 1000 &) ; exit 1")
            assert await events.exit_of() == (1, None)
            assert await agent.stop() == ()

    run(test())


def test_orphans_that_have_ended_are_reaped():
    async def test():
        async with agent_here() as (agent, _events):
            await spawn(agent, "for i in 1 2 3; do (sleep 0.2 &) ; done; sleep 1000")

            def zombies() -> int:
                stats = [text_of(path) for path in Path("/proc").glob("[0-9]*/stat")]
                fields = [stat.rpartition(")")[2].split()[:2] for stat in stats if stat]
                return fields.count(["Z", str(agent.greeting.holder_pid)])

            while not zombies():
                await asyncio.sleep(0.05)
            while zombies():
                await asyncio.sleep(0.5)

    run(test())


def test_a_flood_that_nobody_reads_stays_bounded_and_stops_nothing():
    async def test():
        async with agent_here(grace_s=0.5) as (agent, events):
            pid = await agent.spawn(0, python("import os\nwhile True: os.write(1, bytes(65536))"), {}, "/")
            await events.until(lambda: len(events.text()) > 10_000_000)
            time.sleep(2.0)  # this side does not read; within the heartbeat time
            resident_kb = int(
                Path(f"/proc/{agent.greeting.holder_pid}/status").read_text().partition("VmRSS:")[2].split()[0]
            )
            assert resident_kb < 100_000
            assert is_alive(pid)
            assert await agent.stop() == ()
            assert events.exits == [(0, None, "SIGTERM")]

    run(test())


def test_what_json_cannot_hold_and_what_is_too_long_is_told():
    async def test():
        async with agent_here() as (agent, _):
            with pytest.raises(LaunchError, match="can't be asked"):
                await agent.spawn(0, ["true"], {"A": "x" * 2_000_000}, "/")

    run(test())


def test_after_the_loss_every_request_says_so():
    async def test():
        async with agent_here() as (agent, events):
            waiting = asyncio.ensure_future(agent.stop())
            await waiting
            os.kill(agent.greeting.holder_pid, signal.SIGKILL)
            await events.until(lambda: events.losses)
            for request in (agent.stop(), agent.put("x", b""), agent.fetch(), agent.relay("127.0.0.1", 1)):
                with pytest.raises(HostUnreachable, match="the agent on `here` is gone"):
                    await request
            agent.signal(0, signal.SIGTERM)
        assert len(events.losses) == 1
        assert "signal 9" in events.losses[0]

    run(test())


@needs_root
def test_requests_in_flight_end_with_the_loss():
    async def test():
        async with agent_here(grace_s=1000.0, isolate=True) as (agent, events):
            await spawn(agent, STUBBORN)
            await events.until(lambda: events.text() == b"ready\n")
            waiting = asyncio.ensure_future(agent.stop())
            await asyncio.sleep(0.1)
            for pid in (agent.greeting.guard_pid, agent.greeting.holder_pid):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(HostUnreachable):
                await waiting

    run(test())
