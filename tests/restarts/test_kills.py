"""Workers and chiefs killed at any step: training ends with the weights of a run without kills, bit by bit."""

import numpy as np
import pytest

from .runs import assert_same, run

COLLECTIVE = "AllReduce(communicator='collective')"
PARTITIONED = "PartitionedPS(min_shard_bytes=0)"
DROPOUT = ("--dropout", "0.3")


def kills(workers, seed, last=23):
    """Three of them, at random steps, of the chief and of others."""
    random = np.random.default_rng(seed)
    ranks = [0, int(random.integers(1, workers)), int(random.integers(workers))]
    steps = sorted(int(step) for step in random.choice(last, 3, replace=False))
    return [f"{attempt}:{rank}:{step}" for attempt, (rank, step) in enumerate(zip(ranks, steps, strict=True))]


def test_a_loop_on_parameter_servers(tmp_path):
    _, expected = run("loop.py", tmp_path / "one", strategy=PARTITIONED)
    result, found = run("loop.py", tmp_path / "two", strategy=PARTITIONED, kills=["0:1:5", "1:0:10"])
    assert_same(found, expected)
    assert [attempt.checkpoint.restored for attempt in (*result.earlier, result)] == [0, 3, 9]
    assert list(found[0]["taken"]) == list(range(9, 24))


def test_fit_on_collectives(tmp_path):
    _, expected = run("fit.py", tmp_path / "one", strategy=COLLECTIVE)
    result, found = run("fit.py", tmp_path / "two", strategy=COLLECTIVE, kills=["0:0:12"])
    assert_same(found, expected)
    assert result.checkpoint.restored == 12
    assert not (tmp_path / "two" / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 3])
@pytest.mark.parametrize("strategy", [COLLECTIVE, "PSLoadBalancing", PARTITIONED, "Parallax"])
@pytest.mark.parametrize("script", ["loop.py", "fit.py"])
def test_three_kills(script, strategy, workers, tmp_path):
    options = {"strategy": strategy, "workers": workers}
    _, expected = run(script, tmp_path / "one", *DROPOUT, **options)
    orders = kills(workers, seed=abs(hash((script, strategy, workers))) % 1000)
    _, found = run(script, tmp_path / "two", *DROPOUT, **options, kills=orders)
    assert_same(found, expected)
