"""Two workers that don't reach each other any more, while both still hear the launcher."""

import re
import subprocess
import time

import pytest

from autodist.testing import EmulatedCluster

from .clusters import TRAINING

pytestmark = pytest.mark.emulated

CARRIERS = {
    "tcp": "AllReduce(communicator='tcp')",
    "servers over tcp": "PartitionedPS(communicator='tcp')",
    "horovod": "AllReduce(communicator='horovod')",
    "collective": "AllReduce(communicator='collective')",
}


@pytest.fixture(scope="module")
def cluster():
    with EmulatedCluster(2) as made:
        (made.disk("head") / "root/train.py").write_text(TRAINING)
        (made.disk("head") / "root/cluster.yml").write_text("nodes: [{address: 'h[1-2]'}]\n")
        yield made


class Run:
    """A training that is started at `head`."""

    def __init__(self, cluster, output, strategy):
        command = ["autodist", "run", "train.py", "--no-check-versions", "--max-restarts", "1", "--allow-open-ports"]
        command += ["--strategy", strategy]
        self._output = output
        with output.open("wb") as file:
            self.process = subprocess.Popen(cluster.command("head", command), stdout=file, stderr=file)

    @property
    def told(self):
        return self._output.read_text()

    def steps(self):
        return max(map(int, re.findall(r"step (\d+)$", self.told, re.MULTILINE)), default=0)

    def comes_to(self, step):
        assert within(280, lambda: self.steps() >= step or self.process.poll() is not None)
        assert self.process.poll() is None, self.told


@pytest.fixture
def start(cluster, tmp_path):
    started = []

    def start(strategy):
        started.append(Run(cluster, tmp_path / "output", strategy))
        return started[-1]

    yield start
    cluster.heal("h1", "h2")
    for run in started:
        if run.process.poll() is None:
            for host in ("head", "h1", "h2"):
                for pid in cluster.processes(host):
                    subprocess.run(["kill", "-KILL", str(pid)], check=False)
            run.process.wait(30)


def within(timeout_s, condition):
    deadline = time.monotonic() + timeout_s
    while not (held := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return held


@pytest.mark.parametrize(
    "carrier", [name if name == "tcp" else pytest.param(name, marks=pytest.mark.slow) for name in CARRIERS]
)
def test_a_pair_that_stays_cut_is_named_within_seconds_and_a_short_cut_interrupts_nothing(cluster, start, carrier):
    run = start(CARRIERS[carrier])
    run.comes_to(5)
    cluster.cut("h1", "h2")
    time.sleep(5)
    cluster.heal("h1", "h2")
    run.comes_to(run.steps() + 5)

    cluster.cut("h1", "h2")
    began_s = time.monotonic()
    assert within(40, lambda: "restart 1 of 1" in run.told), run.told
    ended_s = time.monotonic() - began_s
    assert run.process.wait(60) == 1, run.told
    again_s = time.monotonic() - began_s - ended_s
    print(f"{carrier}: ended {ended_s:.1f} s after the cut, and {again_s:.1f} s after the restart")
    assert ended_s < 25, run.told
    assert again_s < 30, run.told
    said = r"worker 1 does not reach worker 0 \(10.77.0.2 -> 10.77.0.1\): no answer either way for 1\d s"
    assert len(re.findall(said, run.told)) == 2, run.told
    assert not any(cluster.processes(host) for host in ("head", "h1", "h2"))
