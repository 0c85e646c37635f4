"""Batches of few rows, of none, and with something beside them, over several workers and in every way to train."""

import functools
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from . import all_batches

STRATEGIES = [
    pytest.param("PSLoadBalancing", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='horovod')", marks=[pytest.mark.horovod, pytest.mark.slow]),
    pytest.param("AllReduce(communicator='collective')", marks=pytest.mark.slow),
    pytest.param("PartitionedPS(communicator='tcp')", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='tcp')", marks=pytest.mark.slow),
]
QUICK = ("sharded", "local_arrays", "fitted", "bank", "asking")
"""One of each way to train, with batches of no rows, what is no batch, and what is refused;
test_empty_batches.py has more of them."""


@pytest.fixture(scope="module")
def expected():
    """By programs, what they find here; each runs once."""
    return functools.cache(lambda name: all_batches.run([name]))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        pytest.param("AllReduce(communicator='tcp')", QUICK, id="tcp-some"),
        *(pytest.param(*s.values, tuple(all_batches.PROGRAMS), marks=s.marks, id=s.values[0]) for s in STRATEGIES),
    ],
)
def test_two_workers_find_what_one_device_does(strategy, names, expected, tmp_path):
    arguments = (f"{tmp_path}/", *names)
    job = Job(all_batches.__file__, ResourceSpec.local(workers=2), arguments, strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    found, other = (np.load(Path(tmp_path, f"{rank}.npz")) for rank in range(2))
    assert found["words"].tolist() == other["words"].tolist()
    for name, value in (pair for program in names for pair in expected(program).items()):
        np.testing.assert_allclose(other[name], found[name], rtol=1e-6, err_msg=name)
        if not name.startswith("augmented"):
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=2e-6, err_msg=name)
