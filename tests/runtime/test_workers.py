"""Two workers under `autodist run` keep the program's view of its variables as one device does."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import coherent

SCRIPTS = Path(__file__).parent
STRATEGIES = [
    "PartitionedPS(min_shard_bytes=0, communicator='tcp')",
    pytest.param("PartitionedPS(min_shard_bytes=0)", marks=pytest.mark.slow),
    pytest.param("PSLoadBalancing", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='collective')", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='horovod')", marks=[pytest.mark.horovod, pytest.mark.slow]),
]


def run(script, *args, workers=2, cwd, timeout=150):
    command = [sys.executable, "-m", "autodist", "run", str(script), "--workers", str(workers), *args]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=timeout)


@pytest.fixture(scope="module")
def expected():
    return coherent.main(contextlib.nullcontext)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_everything_at_once(strategy, expected, tmp_path):
    out = f"{tmp_path}/out"
    result = run(SCRIPTS / "coherent.py", "--strategy", strategy, "--", out, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for rank in range(2):
        found = dict(np.load(f"{out}{rank}.npz"))
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=5e-5, atol=5e-6, err_msg=f"{name} on rank {rank}")
    assert (tmp_path / "out0.weights.h5").exists()
    assert not (tmp_path / "out1.weights.h5").exists()


def results(cwd, workers):
    out = f"{cwd}/{workers}-"
    result = run(
        SCRIPTS / "sharded.py", "--strategy", "PSLoadBalancing", "--seed", "3", "--", out, workers=workers, cwd=cwd
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(Path(f"{out}{rank}.json").read_text()) for rank in range(workers)]


def test_shards_of_two_workers(tmp_path):
    (alone,), both = results(tmp_path, 1), results(tmp_path, 2)
    for found in both:
        assert found["random"] == alone["random"]  # one seed for all generators of all workers
        for name in ("infinite", "own", "uneven", "shuffled"):
            np.testing.assert_allclose(found[name], alone[name], rtol=1e-5, err_msg=name)
    joined = [one + other for one, other in zip(both[0]["seen"], both[1]["seen"], strict=True)]
    assert joined == alone["seen"]  # the same unseeded shuffle, in contiguous parts, in rank order
    assert sorted(row for batch in joined for row in batch) == list(range(53))


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param("AllReduce(communicator='collective')", marks=pytest.mark.slow),
        pytest.param("AllReduce(communicator='horovod')", marks=[pytest.mark.horovod, pytest.mark.slow]),
        pytest.param("PSLoadBalancing", marks=pytest.mark.slow),
    ],
)
def test_dtypes_that_communicators_do_not_carry_and_who_comes_late(strategy, tmp_path):
    late = ["--env", "LATE_S=9", "--env", "HOROVOD_GLOO_TIMEOUT_SECONDS=6"]  # after which Horovod would end the chief
    result = run(SCRIPTS / "narrow_dtypes.py", "--strategy", strategy, *late, "--", f"{tmp_path}/", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    one, other = (dict(np.load(tmp_path / f"{rank}.npz")) for rank in range(2))
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])
