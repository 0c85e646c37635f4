"""Workers and chiefs killed at any step: training ends with the weights of a run without kills, bit by bit."""

import os
import subprocess
import sys
import zlib

import numpy as np
import pytest

from tests.modules import TESTS, python_path

from .runs import SCRIPTS, assert_same, run

COLLECTIVE = "AllReduce(communicator='collective')"
PARTITIONED = "PartitionedPS(min_shard_bytes=0)"
DROPOUT = ("--dropout", "0.3")


def kills(workers, seed, last=23):
    """Three of them, at random steps, of the chief and of others."""
    random = np.random.default_rng(seed)
    ranks = [0, int(random.integers(1, workers)), int(random.integers(workers))]
    steps = sorted(int(step) for step in random.choice(last, 3, replace=False))
    return [f"{attempt}:{rank}:{step}" for attempt, (rank, step) in enumerate(zip(ranks, steps, strict=True))]


def test_a_loop_on_parameter_servers_ends_as_on_one_device(tmp_path):
    expected = alone("loop.py", tmp_path / "one")
    result, found = run("loop.py", tmp_path / "two", strategy=PARTITIONED, kills=["0:1:10"])
    assert_same(found, expected, exactly=False)
    assert [attempt.checkpoint.restored for attempt in (*result.earlier, result)] == [0, 9]
    assert list(found[0]["taken"]) == list(range(9, 24))


@pytest.mark.slow
def test_a_loop_on_parameter_servers(tmp_path):
    _, expected = run("loop.py", tmp_path / "one", strategy=PARTITIONED)
    result, found = run("loop.py", tmp_path / "two", strategy=PARTITIONED, kills=["0:1:10"])
    assert_same(found, expected)
    assert [attempt.checkpoint.restored for attempt in (*result.earlier, result)] == [0, 9]
    assert list(found[0]["taken"]) == list(range(9, 24))


@pytest.mark.slow
def test_fit_on_collectives(tmp_path):
    _, expected = run("fit.py", tmp_path / "one", strategy=COLLECTIVE)
    result, found = run("fit.py", tmp_path / "two", strategy=COLLECTIVE, kills=["0:0:12"])
    assert_same(found, expected)
    assert result.checkpoint.restored == 12
    assert not (tmp_path / "two" / "checkpoints").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "strategy", "workers"),
    [
        ("loop.py", COLLECTIVE, 3),
        ("loop.py", PARTITIONED, 2),
        ("loop.py", "Parallax", 2),
        ("fit.py", COLLECTIVE, 2),
        ("fit.py", "PSLoadBalancing", 2),
        ("fit.py", PARTITIONED, 3),
        pytest.param("fit.py", "AllReduce(communicator='horovod')", 2, marks=pytest.mark.horovod),
    ],
)
def test_after_three_kills_the_weights_are_the_undisturbed_ones(script, strategy, workers, tmp_path):
    options = {"strategy": strategy, "workers": workers}
    _, expected = run(script, tmp_path / "one", *DROPOUT, **options)
    orders = kills(workers, seed=zlib.crc32(f"{script} {strategy} {workers}".encode()))
    _, found = run(script, tmp_path / "two", *DROPOUT, **options, kills=orders)
    assert_same(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", [COLLECTIVE, PARTITIONED])
@pytest.mark.parametrize("script", ["loop.py", "fit.py"])
def test_values_that_come_after_the_first_steps(script, strategy, tmp_path):
    """Checkpoints are looked for when the session has all variables already."""
    _, expected = run(script, tmp_path / "one", "--warm-up", strategy=strategy)
    result, found = run(script, tmp_path / "two", "--warm-up", strategy=strategy, kills=["0:1:7", "1:0:17"])
    assert_same(found, expected)
    assert result.checkpoint.restored > 12


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["PS(sync=False)", "PS(staleness=2)", "PS(sync=False, local_proxy=True)"])
@pytest.mark.parametrize("script", ["loop.py", "fit.py"])
def test_workers_that_do_not_wait_for_each_other(script, strategy, tmp_path):
    """Their weights differ from run to run; checkpoints are those of one step all the same, and all go on from it."""
    result, found = run(script, tmp_path, strategy=strategy, kills=["0:1:7", "1:0:17"])
    assert (result.checkpoint.restored, result.steps) == (15, 9)
    for name, value in found[0].items():
        if "losses" not in name:
            np.testing.assert_array_equal(value, found[1][name], err_msg=name)
    [steps] = [value for name, value in found[0].items() if name.endswith("iteration")]
    assert steps >= 24


@pytest.mark.slow
def test_checkpoints_by_the_clock(tmp_path):
    _, expected = run("loop.py", tmp_path / "one", strategy=PARTITIONED)
    by_clock = ("--every-steps", "0", "--every-s", "0.001")
    result, found = run("loop.py", tmp_path / "two", *by_clock, strategy=PARTITIONED, kills=["0:1:7", "1:0:17"])
    assert_same(found, expected)
    assert 10 < result.checkpoint.restored <= 17


# --- another cluster


def alone(script, directory, *args):
    """The same script without `autodist run`."""
    directory.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPTS / script), str(directory), *args]
    environment = {**os.environ, "PYTHONPATH": python_path(TESTS)}
    subprocess.run(command, check=True, timeout=200, env=environment)
    return [dict(np.load(directory / "0.npz"))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "options"), [("loop.py", ["--every-steps", "0"]), ("fit.py", ["--save-freq", "0", "--keep"])]
)
def test_from_servers_to_collectives_to_one_process(script, options, tmp_path):
    expected = alone(script, tmp_path / "expected", *options)
    options += ["--checkpoints", str(tmp_path / "checkpoints")]
    first, _ = run(script, tmp_path / "1", *options, "--epochs", "1", strategy=PARTITIONED)
    second, _ = run(script, tmp_path / "2", *options, "--epochs", "2", strategy=COLLECTIVE, workers=3)
    assert [(r.checkpoint.restored, r.checkpoint.saved) for r in (first, second)] == [(0, 8), (8, 16)]
    found = alone(script, tmp_path / "3", *options, "--epochs", "3")
    assert_same(found, expected, exactly=False)


@pytest.mark.slow
@pytest.mark.parametrize(("script", "options"), [("loop.py", []), ("fit.py", ["--keep"])])
def test_complete_training_is_not_repeated(script, options, tmp_path):
    """A worker that dies after the last step leaves nothing to train: the next attempt only does what comes after."""
    _, expected = run(script, tmp_path, *options)
    result, found = run(script, tmp_path, *options)
    assert (result.steps, result.checkpoint.restored) == (0, 24)
    assert_same(found, [{name: value for name, value in expected[0].items() if name != "losses"}])
    assert not len(found[0].get("taken", ()))


@pytest.mark.slow
def test_callback_of_keras(tmp_path):
    """Of it there is less to expect: whole epochs, and orders of the data that begin anew."""
    result, found = run("fit.py", tmp_path, "--keras", strategy="PSLoadBalancing", kills=["0:1:12"])
    assert result.steps == 16
    for name, value in found[0].items():
        np.testing.assert_array_equal(value, found[1][name], err_msg=name)
