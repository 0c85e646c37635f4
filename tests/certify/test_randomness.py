"""The same seed gives the same run, on any workers, under any synchronous strategy; replicas draw other numbers."""

from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("randomness.py")
STRATEGIES = (
    "PSLoadBalancing",
    "AllReduce(communicator='collective')",
    pytest.param("AllReduce(communicator='horovod')", marks=pytest.mark.horovod),
    pytest.param("Parallax(communicator='horovod')", marks=pytest.mark.horovod),
)


def train(directory, workers, strategy):
    """What each rank wrote after the first and the second training."""
    directory.mkdir()
    spec = ResourceSpec.local(workers=workers)
    result = LocalLauncher().launch(Job(SCRIPT, spec, (str(directory),), strategy, run_dir=directory / "run"))
    assert result.exit_code == 0, result.failure
    return [[dict(np.load(directory / f"{rank}_{number}.npz")) for number in range(2)] for rank in range(workers)]


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_same_seed_gives_the_same_run(strategy, workers, tmp_path):
    runs = [train(tmp_path / name, workers, strategy) for name in ("once", "again")]
    first = runs[0][0][0]
    for run in runs:
        for rank in run:
            for training in rank:
                assert_equal(first, training)
    assert not np.array_equal(first["weight"], np.ones([6, 1]))
    share = 12 // workers
    for name in ("dropout/0", "generator/0"):
        parts = [first[name][k * share : (k + 1) * share] for k in range(workers)]
        assert all(not np.array_equal(parts[0], part) for part in parts[1:]), name
