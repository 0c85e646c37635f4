"""Nodes of a Slurm allocation, with a stand-in `srun` that does what the manual says (`tests/remote/srun`)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from autodist.errors import HostUnreachable
from autodist.remote import Channel, Machine, SrunTransport, SubprocessChannel, default_transport
from autodist.remote import _srun as srun
from autodist.resource_spec import Host, ResourceSpec

STAND_IN = Path(__file__).with_name("srun")
WAIT_S = 60.0


@pytest.fixture
def allocation(tmp_path: Path) -> dict[str, str]:
    """The environment of a job on two nodes, whose own numbers are not those of one agent."""
    programs = tmp_path / "bin"
    programs.mkdir()
    shutil.copy(STAND_IN, programs / "srun")
    (tmp_path / "steps").mkdir()
    return {
        "PATH": f"{programs}:{os.environ['PATH']}", "HOME": os.environ["HOME"],
        "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_TASKS_PER_NODE": "4(x2)", "SLURM_NTASKS": "8",
        "SLURM_CPUS_PER_TASK": "3", "SLURM_GPUS": "4", "SLURM_LABELIO": "1",
        "STAND_IN_NODES": "n1 n2", "STAND_IN_STEPS": str(tmp_path / "steps"),
    }  # fmt: skip


@pytest.fixture
def run(allocation: dict[str, str]) -> Callable[..., Any]:
    """Do something with a channel to a program on a node, and close it."""

    def run(use: Callable[[Channel], Coroutine[Any, Any, Any]], *argv: str, node: str = "n1", **extra: str) -> Any:
        async def whole() -> Any:
            transport = SrunTransport({**allocation, **extra})
            channel = await transport.open(Machine(node), argv, 20.0)
            try:
                return await asyncio.wait_for(use(channel), WAIT_S)
            finally:
                await channel.close()
                await transport.close()

        return asyncio.run(whole())

    return run


async def everything(channel: Channel) -> tuple[bytes, bytes, int | None]:
    async def whole(read: Callable[[], Coroutine[Any, Any, bytes]]) -> bytes:
        pieces = []
        while piece := await read():
            pieces.append(piece)
        return b"".join(pieces)

    output, errors = await asyncio.gather(whole(channel.read), whole(channel.read_error))
    return output, errors, await channel.wait()


def python(code: str) -> list[str]:
    return [sys.executable, "-Ic", code]


def test_every_byte_passes_both_ways_at_once_and_unchanged(run):
    sent = [b"no line end", bytes(range(256)), b"\x04\x03\r\n\n\x11\x13", b"x" * 5000]

    async def use(channel: Channel) -> tuple[bytes, int | None]:
        got = b""
        for piece in sent:
            channel.write(piece)
            await channel.drain()
            before = len(got)
            while len(got) < before + len(piece):
                new = await channel.read()
                assert new, "the end came too early"
                got += new
        return got, None

    echo = "import os\nwhile data := os.read(0, 65536):\n    os.write(1, data)"
    assert run(use, *python(echo)) == (b"".join(sent), None)


def test_without_the_option_lines_are_held_back(allocation):
    """What `--unbuffered` is for; if the stand-in did not do this, the test above would show nothing."""
    environment = {name: value for name, value in allocation.items() if name not in srun._OPTIONS_OF_THE_JOB}
    options = ["--nodes=1", "--ntasks=1", "--ntasks-per-node=1", "--nodelist=n1"]
    code = "import os, time; os.write(1, b'line\\nbegin'); time.sleep(30)"
    with subprocess.Popen(
        ["srun", *options, *python(code)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"line\n"
        os.set_blocking(process.stdout.fileno(), False)
        time.sleep(0.5)
        assert process.stdout.read() is None
        process.terminate()


def test_the_streams_stay_apart_and_the_exit_code_comes_back(run):
    code = "import os, sys; os.write(1, b'out'); os.write(2, b'err'); sys.exit(7)"
    assert run(everything, *python(code)) == (b"out", b"err", 7)


def test_the_end_of_input_reaches_the_program(run):
    async def use(channel: SubprocessChannel) -> tuple[bytes, bytes, int | None]:
        channel._stdin.close()
        return await everything(channel)

    assert run(use, *python("import sys; print(len(sys.stdin.read()))"))[0] == b"0\n"


def test_arguments_reach_the_program_as_they_are(run):
    arguments = ["two words", "it's", '"', "$HOME", "*", "", "--nodes=9", "a\nb", "é"]
    output, _, _ = run(everything, *python("import sys; print(sys.argv[1:])"), *arguments)
    assert output.decode() == f"{arguments}\n"


def test_secrets_stay_here_and_the_rest_of_the_environment_goes_along(run):
    extra = {"LD_LIBRARY_PATH": "/opt/lib", "HF_TOKEN": "hidden", "DB_PASSWORD": "hidden", "SLURM_JWT": "needed"}
    output, _, _ = run(everything, "env", node="n2", **extra)
    variables = dict(line.split("=", 1) for line in output.decode().splitlines())
    assert variables["LD_LIBRARY_PATH"] == "/opt/lib"
    assert variables["SLURM_JWT"] == "needed"
    assert variables["SLURMD_NODENAME"] == "n2"
    assert "hidden" not in output.decode()
    assert not srun._OPTIONS_OF_THE_JOB & set(variables)


def test_several_programs_run_on_a_node_at_once(allocation):
    async def whole() -> list[bytes]:
        transport = SrunTransport(allocation)
        channels = [await transport.open(Machine("n1"), ["cat"], 20.0) for _ in range(3)]
        for number, channel in enumerate(channels):
            channel.write(b"%d" % number)
        heard = [await asyncio.wait_for(channel.read(), WAIT_S) for channel in channels]
        await asyncio.gather(*(channel.close() for channel in channels))
        return heard

    assert asyncio.run(whole()) == [b"0", b"1", b"2"]


def test_closing_ends_a_program_that_does_not_read(run, tmp_path: Path):
    async def use(channel: Channel) -> bytes:
        return await channel.read()

    code = (
        "import os, signal, time; signal.signal(15, signal.SIG_IGN); os.write(1, b'%d' % os.getpid()); time.sleep(99)"
    )
    pid = int(run(use, *python(code)))
    deadline = time.monotonic() + 20
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    try:
        assert not is_alive(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    ("address", "change", "message", "hint"),
    [
        ("n3", {}, "it is not in the allocation of job 7, which has n1, n2", "--transport ssh"),
        ("n1", {"SLURM_JOB_ID": ""}, "this is not a Slurm allocation", "salloc"),
        ("n1", {"PATH": "/nowhere"}, "`srun` is not on the PATH", "--transport ssh"),
        ("n1", {"SLURM_JOB_NODELIST": "n["}, "which has no nodes", "--transport ssh"),
    ],
)
def test_what_srun_can_not_reach_is_told(allocation, address, change, message, hint):
    transport = SrunTransport({**allocation, **change})
    with pytest.raises(HostUnreachable) as caught:
        asyncio.run(transport.open(Machine(address), ["true"], 5.0))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert caught.value.address == address


def test_what_srun_says_about_a_node_is_on_standard_error(run):
    _, errors, code = run(everything, "true", STAND_IN_DOWN="n1")
    assert code == 1
    assert b"Task launch failed on node n1" in errors
    _, errors, code = run(everything, "/no/such/program")
    assert code == 2
    assert b"/no/such/program: No such file" in errors


def test_a_full_name_means_the_node(run):
    assert run(everything, "printenv", "SLURMD_NODENAME", node="N2.lab.example")[0] == b"n2\n"


def test_the_default_road(allocation):
    inside = ResourceSpec((Host("n1", "n1"), Host("n2", "n2")))
    outside = ResourceSpec((Host("n1", "n1"), Host("other", "other")))
    local = ResourceSpec.local(2, cpus=1)
    assert [default_transport(allocation, spec) for spec in (None, inside, outside, local)] == [
        "srun", "srun", "asyncssh", "srun",
    ]  # fmt: skip
    assert default_transport({**allocation, "PATH": "/nowhere"}, inside) == "asyncssh"
    assert default_transport({}, inside) == "asyncssh"
