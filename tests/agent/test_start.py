"""From nothing to an agent that has greeted, or to an error that says what to do."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from autodist.agent import Agent
from autodist.agent._settings import Settings
from autodist.agent.client._sources import COMMAND, first_input, sources
from autodist.errors import HostUnreachable, LaunchError
from autodist.remote import Channel, LocalTransport, Machine
from tests.agent.workbench import HERE, Recorder, agent_here, needs_root, run, spawn
from tests.processes import left, marked

PYTHONS = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
OLD_PYTHONS = ["2.7", "3.5", "3.6", "3.7", "3.8", "3.9"]


class Through(LocalTransport):
    """Runs programs by way of a shell script, as a login does."""

    def __init__(self, script: str) -> None:
        super().__init__()
        self._script = script

    async def open(self, machine: Machine, argv: Sequence[str], timeout_s: float) -> Channel:
        return await super().open(machine, ["sh", "-c", self._script, "sh", *argv], timeout_s)


async def failure(**settings) -> HostUnreachable:
    """Start an agent where that can't succeed, and return the error."""
    with pytest.raises(HostUnreachable) as caught:
        async with agent_here(**settings):
            pass
    assert caught.value.hint
    assert caught.value.address == HERE.address
    return caught.value


def search_path(version: str) -> str:
    """Where programs are looked for, those of pyenv's Pythons of a version first."""
    return os.pathsep.join([*map(str, PYTHONS.glob(f"{version}.*/bin")), os.environ["PATH"]])


@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=needs_root)], ids=["", "isolated"])
def test_the_greeting_says_who_is_there(isolate: bool, cache: Path):
    async def test():
        async with agent_here(isolate=isolate) as (agent, _):
            greeting = agent.greeting
            assert greeting.python == platform.python_version()
            assert greeting.executable == sys.executable
            assert greeting.host_name == os.uname().nodename
            assert (greeting.is_isolated, greeting.not_isolated_because) == (isolate, "")
            assert Path(greeting.directory).parent == cache / "autodist" / "runs"
            assert Path(greeting.directory).stat().st_mode & 0o777 == 0o700
            assert Path(f"/proc/{greeting.holder_pid}/stat").exists()

    run(test())


@pytest.mark.parametrize("version", OLD_PYTHONS)
def test_an_old_python_answers_with_its_version(version: str):
    python = shutil.which(f"python{version}", path=search_path(version))
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    exact = subprocess.run([python, "-V"], capture_output=True, text=True, check=True)

    async def test():
        error = await failure(machine=Machine("here", python=python))
        # Python 2 says its version on standard error.
        assert error.message.startswith(f"`here` has {(exact.stdout + exact.stderr).strip()}")
        assert error.message.endswith("3.10 or newer is needed")
        assert "`python:`" in error.hint

    run(test())


def test_the_first_text_is_read_by_every_python():
    text = first_input(Settings("run", "<marker>", 1.0, 1.0, False)).split(b"\n")[0].decode("ascii")
    code = ast.literal_eval(text.removeprefix("exec(").removesuffix(")"))
    ast.parse(code, feature_version=(3, 5))
    assert "\n" not in COMMAND
    assert not set(COMMAND) & set("'!`$\\")


def test_a_python_that_is_not_there_is_told():
    async def test():
        error = await failure(machine=Machine("here", python="/no/such/python"))
        assert error.message == "`/no/such/python` can't be started on `here`: No such file or directory"
        assert "`python`" in error.hint
        error = await failure(machine=Machine("here", python="/no/such/python"), transport=Through('exec "$@"'))
        assert "there is no `/no/such/python` on `here`; it said: " in error.message
        assert "not found" in error.message
        assert "`python:`" in error.hint

    run(test())


def test_what_a_login_prints_is_skipped():
    banner = "Welcome!\\n\\0\\377<autodist 00>\\n{}\\n" * 100

    async def test():
        async with agent_here(transport=Through(f"printf '{banner}'; echo oops >&2; exec \"$@\"")) as (agent, events):
            await spawn(agent, "echo fine")
            assert await events.exit_of() == (0, None)
            assert events.text() == b"fine\n"

    run(test())


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo This account is disabled.; exit 1", "with exit code 1 before it answered; it said: This account is"),
        ("echo no >&2; kill -9 $$", "by signal 9 before it answered; it said: no"),
        ("exec yes", "writes so much that no agent is found in it; it said: y\ny\n"),
        ("exit 0", "with exit code 0 before it answered"),
        ("echo wait a moment; exec sleep 1000", "started no agent within 5 s; it said: wait a moment"),
        ("exec cat", "started no agent within 5 s; it said: "),
    ],
)
def test_what_came_instead_of_an_agent_is_quoted(script: str, expected: str):
    async def test():
        error = await failure(transport=Through(script), timeout_s=5.0 if "5 s" in expected else 60.0)
        assert expected in error.message
        assert len(error.message) < 700

    run(test())


def test_a_directory_that_shadows_modules_is_not_imported_from(tmp_path: Path):
    for name in ("json", "asyncio", "socket", "autodist"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")

    async def test():
        async with agent_here(transport=Through(f"cd '{tmp_path}' && exec \"$@\"")) as (agent, _):
            assert agent.greeting.holder_pid

    run(test())


def test_the_agent_needs_nothing_but_the_standard_library():
    assert {"autodist.agent.holder", "autodist.agent.holder._guard", "autodist.agent._settings"} < sources().keys()
    for name, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for imported in names:
                assert imported in sources() or imported.partition(".")[0] in sys.stdlib_module_names, (name, imported)


def test_an_agent_runs_without_the_packages_of_the_machine():
    async def test():
        async with agent_here(transport=Through('p=$1; shift; exec "$p" -I -S "$@"')) as (agent, _):
            assert agent.greeting.python

    run(test())


@needs_root
@pytest.mark.parametrize("drop", ["-sys_admin", "-all"])
def test_without_the_right_to_isolate_it_does_without_and_says_so(drop: str):
    async def test():
        transport = Through(f'exec setpriv --bounding-set {drop} --inh-caps {drop} "$@"')
        async with agent_here(transport=transport, isolate=True) as (agent, events):
            assert not agent.greeting.is_isolated
            assert agent.greeting.not_isolated_because == "no PID namespace can be made: Operation not permitted"
            await spawn(agent, "echo fine")
            assert await events.exit_of() == (0, None)

    run(test())


def test_signals_that_the_launcher_blocks_or_ignores_do_not_concern_the_agent():
    ignoring = (
        "import os, sys; from signal import *; signal(SIGCHLD, SIG_IGN); "
        "pthread_sigmask(SIG_BLOCK, [SIGTERM, SIGCHLD]); os.execvp(sys.argv[1], sys.argv[1:])"
    )

    async def test():
        transport = Through(f'exec {sys.executable} -c "{ignoring}" "$@"')
        async with agent_here(transport=transport, grace_s=1000.0) as (agent, events):
            await spawn(agent, "exit 3")
            assert await events.exit_of() == (3, None)
            await spawn(agent, "sleep 1000", rank=1)
            assert await agent.stop() == ()
            assert events.exits[-1] == (1, None, "SIGTERM")

    run(test())


def test_a_start_that_is_given_up_leaves_nothing(mark: str):
    async def test():
        starting = asyncio.ensure_future(
            Agent.start(Through('sleep 0.3; exec "$@"'), HERE, run_id="x", events=Recorder())
        )
        await asyncio.sleep(0.1)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    run(test())
    assert left(mark) == []


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
@pytest.mark.parametrize("isolate", [False, pytest.param(True, marks=needs_root)], ids=["", "isolated"])
def test_agents_run_with_every_python_that_may_run_them(version: str, isolate: bool):
    found = next(PYTHONS.glob(f"{version}.*/bin/python"), None) or shutil.which(f"python{version}")
    if found is None:
        pytest.skip(f"there is no Python {version} on this machine")

    async def test():
        async with agent_here(machine=Machine("here", python=str(found)), isolate=isolate) as (agent, events):
            assert agent.greeting.python.startswith(version)
            await spawn(agent, "echo fine; (setsid sleep 1000 &) ; exit 3")
            assert await events.exit_of() == (3, None)
            await agent.put("x", b"content")
            assert (await agent.fetch()).files == {"x": b"content"}
            assert await agent.stop() == ()
            with contextlib.suppress(LaunchError):
                await agent.call("facts.nothing")
            assert events.losses == []

    run(test())


@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.15])
def test_a_client_that_is_killed_at_any_moment_of_the_start_leaves_nothing(mark: str, delay_s: float, cache: Path):
    code = """
from tests.agent.workbench import agent_here, run, spawn
async def test():
    print("go", flush=True)
    async with agent_here() as (agent, events):
        await spawn(agent, "sleep 1000")
        await spawn(agent, "setsid sleep 1000", rank=1)
        await events.exit_of()
run(test())
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"go\n"
    time.sleep(delay_s)
    process.kill()
    process.communicate()
    time.sleep(0.5)  # a child that was about to run its program has no environment to be known by for a moment
    deadline = time.monotonic() + 20
    while (marked(mark) or list(cache.glob("autodist/runs/*"))) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert marked(mark) == []
    assert list(cache.glob("autodist/runs/*")) == []


def test_a_ctrl_c_at_the_terminal_does_not_reach_the_agent():
    code = """
import asyncio, os, signal
from tests.agent.workbench import agent_here, run, spawn
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.setpgid(0, 0)
async def test():
    async with agent_here() as (agent, events):
        await spawn(agent, "sleep 0.5; exit 7")
        os.killpg(0, signal.SIGINT)
        assert await events.exit_of() == (7, None)
        assert events.losses == []
run(test())
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
