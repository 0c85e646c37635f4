"""Emulated hosts: workers reach each other over links of their own, and nothing of them is left."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from autodist.errors import LaunchError
from autodist.testing import EmulatedCluster

HEAD = str(Path(__file__).with_name("head_of_emulated.py"))
SIZE = 4 * 2**20
STEPS = 5


@pytest.fixture
def cluster():
    try:
        made = EmulatedCluster(2, "1gbit").__enter__()
    except LaunchError as error:
        pytest.skip(f"hosts can't be emulated here: {error}")
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        "PSLoadBalancing",
        "AllReduce(communicator='collective')",
        pytest.param("AllReduce(communicator='horovod')", marks=pytest.mark.horovod),
    ],
)
def test_workers_train_over_their_links(cluster, strategy, tmp_path):
    cluster.call([sys.executable, HEAD, strategy, str(tmp_path / "run")])
    for rank in range(2):
        assert "trained" in (tmp_path / "run" / "logs" / f"{rank}.log").read_text()
    assert max(cluster.sent_bytes()) > STEPS * SIZE


def test_links_have_their_rate(cluster):
    send = "import socket, sys; s = socket.create_connection(('h2', 7001)); s.sendall(bytes(2**24)); s.close()"
    take = (
        "import socket; s = socket.create_server(('', 7001)); print('ready', flush=True); c, _ = s.accept(); n = 0\n"
        "while d := c.recv(2**20): n += len(d)\nprint(n)"
    )
    taker = subprocess.Popen(cluster.inside("h2", [sys.executable, "-c", take]), stdout=subprocess.PIPE, text=True)
    assert taker.stdout.readline() == "ready\n"
    before, began = cluster.sent_bytes()[0], time.monotonic()
    subprocess.run(cluster.inside("h1", [sys.executable, "-c", send]), check=True, timeout=60)
    assert taker.communicate(timeout=60)[0] == f"{2**24}\n"
    assert 2**24 <= cluster.sent_bytes()[0] - before < 1.1 * 2**24
    assert time.monotonic() - began > 0.8 * 2**24 * 8 / 1e9  # no faster than the link


def test_nothing_is_left(cluster):
    sleeper = subprocess.Popen(cluster.inside("h1", ["sleep", "60"]))
    cluster.close()
    assert sleeper.wait(timeout=10) == -9
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    assert cluster.inside("h1", [])[3] not in listed


def test_a_program_that_fails_says_so(cluster):
    with pytest.raises(LaunchError, match="ended with 3"):
        cluster.call([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(LaunchError, match="longer than"):
        cluster.call(["sleep", "30"], timeout_s=0.5)


def test_only_the_head_launches():
    with pytest.raises(LaunchError, match="runs on no emulated host"):
        EmulatedCluster.current()
