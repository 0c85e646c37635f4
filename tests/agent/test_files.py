"""The run's directory on the machine: what is put there and fetched, and that it goes with the agent."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
from pathlib import Path

import pytest

from autodist.agent.holder._directory import RunDirectory, path_below, remove_abandoned
from autodist.errors import HostUnreachable, LaunchError, TimedOut
from autodist.remote import Machine
from tests.agent.workbench import NOBODY, NOBODYS_PYTHON, AsNobody, agent_here, needs_nobody, run, spawn

BIG = 64 << 20
BAD_NAMES = ["", "/etc/x", "../x", "a/../../x", "a//b", "./a", ".lock", ".parts/x", "a\0b", "a/"]


def test_files_are_put_and_fetched():
    files = {"a.txt": b"", "b/c d/'e'.bin": bytes(range(256)) * 1000, "z": b"last"}

    async def test():
        async with agent_here() as (agent, events):
            for name, content in files.items():
                path = Path(await agent.put(name, content))
                assert path == Path(agent.directory) / name
                assert path.read_bytes() == content
                assert path.stat().st_mode & 0o777 == 0o600
            await agent.put("z", b"again")
            fetched = await agent.fetch()
            assert fetched.files == {**files, "z": b"again"}
            assert list(fetched.files) == sorted(files)
            assert fetched.left_out == ()
            await spawn(agent, "cat z; echo new > z; ln -s /etc/passwd link; mkfifo pipe", cwd=agent.directory)
            await events.exit_of()
            assert (events.text(), (await agent.fetch()).files["z"]) == (b"again", b"new\n")
            assert sorted((await agent.fetch()).files) == sorted(files)  # neither links nor pipes

    run(test())


def test_large_files_pass_while_others_go_on():
    """A busy machine may take longer to start a shell than to pass a file; then it is tried with a larger one."""
    for times in (1, 2, 4, 8):
        if run(_is_overtaken(os.urandom(1 << 20) * (times * BIG >> 20))):
            return
    pytest.fail("short commands wait for large files")


async def _is_overtaken(content):
    """Whether commands end while a file is put, and while it is fetched."""
    async with agent_here() as (agent, events):
        putting = asyncio.ensure_future(agent.put("big", content))
        await spawn(agent, "i=0; while [ $i -lt 5 ]; do echo $i; i=$((i+1)); done")
        await events.exit_of()
        is_overtaken = not putting.done()
        path = await putting
        assert Path(path).read_bytes() == content
        fetching = asyncio.ensure_future(agent.fetch())
        await spawn(agent, "echo fine", rank=1)
        await events.exit_of(1)
        is_overtaken = is_overtaken and not fetching.done()
        assert (await fetching).files == {"big": content}
    return is_overtaken


def test_what_is_fetched_is_bounded():
    async def test():
        async with agent_here() as (agent, _):
            for name, size in {"a": 100, "b": 1000, "c": 100, "d": 1}.items():
                await agent.put(name, bytes(size))
            fetched = await agent.fetch(most_bytes=250)
            assert (list(fetched.files), fetched.left_out) == (["a", "c", "d"], ("b",))
            fetched = await agent.fetch(most_files=2)
            assert (list(fetched.files), fetched.left_out) == (["a", "b"], ("c", "d"))

    run(test())


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_lead_out_are_no_paths(name: str, tmp_path: Path):
    with pytest.raises(ValueError, match="not the path of a file below"):
        path_below(tmp_path, name)


def test_names_that_lead_out_are_refused():
    async def test():
        async with agent_here() as (agent, _):
            for name in BAD_NAMES:
                with pytest.raises(LaunchError, match="not the path of a file below"):
                    await agent.put(name, b"content")
            assert (await agent.fetch()).files == {}

    run(test())


def test_what_cannot_be_written_is_told():
    async def test():
        async with agent_here() as (agent, _):
            await agent.put("a", b"")
            with pytest.raises(LaunchError, match=r"on `here`: `.*/a`: File exists") as caught:
                await agent.put("a/b", bytes(3 << 20))
            assert not isinstance(caught.value, HostUnreachable)
            assert list((await agent.fetch()).files) == ["a"]

    run(test())


def test_a_machine_whose_disk_does_not_answer_is_not_waited_for():
    async def test():
        async with agent_here() as (agent, _):
            await agent.put("a", b"content")
            os.kill(agent.greeting.holder_pid, signal.SIGSTOP)
            with pytest.raises(TimedOut, match=r"writing `x` on `here` took longer than 0\.5 s"):
                await agent.put("x", bytes(3 << 20), timeout_s=0.5)
            with pytest.raises(TimedOut, match="fetching files on `here`"):
                await agent.fetch(timeout_s=0.5)
            os.kill(agent.greeting.holder_pid, signal.SIGCONT)
            assert (await agent.fetch()).files == {"a": b"content"}

    run(test())


@needs_nobody
def test_what_may_not_be_written_to_is_removed_too():
    async def test():
        machine = Machine("here", python=NOBODYS_PYTHON)
        async with agent_here(transport=AsNobody(), machine=machine) as (agent, events):
            await spawn(agent, "mkdir -p a/b; touch a/b/c; chmod 500 a/b a", cwd=agent.directory)
            assert await events.exit_of() == (0, None)
            return Path(agent.directory)

    assert not run(test()).exists()


def test_the_directory_goes_with_the_agent(cache: Path):
    async def test():
        async with agent_here() as (agent, events):
            await spawn(agent, "mkdir -p x/y; touch x/y/z", cwd=agent.directory)
            assert await events.exit_of() == (0, None)
            return Path(agent.directory)

    directory = run(test())
    assert not directory.exists()
    assert not (cache / "autodist").exists()


def test_runs_of_any_name_have_directories_of_their_own(cache: Path):
    async def test():
        async with agent_here(run_id="../a b'$(x)") as (one, _), agent_here(run_id="../a b'$(x)") as (other, _):
            paths = {Path(one.directory), Path(other.directory)}
            assert len(paths) == 2
            assert {path.parent for path in paths} == {cache / "autodist" / "runs"}

    run(test())


@needs_nobody
def test_without_a_home_the_directory_is_among_the_temporary_files():
    async def test():
        machine = Machine("here", python=NOBODYS_PYTHON)
        async with agent_here(transport=AsNobody(), machine=machine) as (agent, _):
            path = Path(agent.directory)
            assert path.name.startswith("autodist-test-")
            assert (path.stat().st_uid, path.stat().st_mode & 0o777) == (NOBODY, 0o700)
            await agent.put("x", b"content")
        assert not path.exists()

    run(test())


def test_what_a_killed_agent_left_is_removed_by_the_next(cache: Path):
    abandoned, used = RunDirectory("one"), RunDirectory("two")
    (abandoned.path / "sub").mkdir()
    os.close(abandoned._lock)
    elsewhere = cache / "autodist" / "runs" / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / ".lock").write_text("another boot")
    stranger = cache / "autodist" / "runs" / "stranger"
    stranger.mkdir()
    remove_abandoned()
    assert not abandoned.path.exists()
    assert used.path.exists()
    assert elsewhere.exists()
    assert stranger.exists()
    fcntl.flock(used._lock, fcntl.LOCK_UN)
    os.close(used._lock)
    used.remove()


def test_a_running_agent_keeps_its_directory_when_another_cleans_up():
    async def test():
        async with agent_here() as (agent, _):
            await asyncio.to_thread(remove_abandoned)
            await agent.put("x", b"content")
            async with agent_here():
                await asyncio.sleep(0.5)
            assert (await agent.fetch()).files == {"x": b"content"}

    run(test())
