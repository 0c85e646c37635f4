"""Dropout and, by default, batch normalization work by replica: what holds in place of equality with one device."""

from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from . import replica_state

SCRIPT = Path(__file__).with_name("replica_state.py")
SPLIT_OF_FIVE = (slice(0, 3), slice(3, 5))


def train(directory, workers, replicas, strategy="PSLoadBalancing"):
    """What each rank wrote."""
    directory.mkdir()
    spec = ResourceSpec.local(workers=workers, cpus=replicas)
    result = LocalLauncher().launch(Job(SCRIPT, spec, (str(directory),), strategy, run_dir=directory / "run"))
    assert result.exit_code == 0, result.failure
    return [dict(np.load(directory / f"{rank}.npz")) for rank in range(workers)]


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return train(tmp_path_factory.mktemp("state") / "one", 1, 1)[0]


@pytest.fixture(
    scope="module", params=[pytest.param((1, 2), marks=pytest.mark.slow, id="1x2"), pytest.param((2, 1), id="2x1")]
)
def two(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("state") / "two", *request.param)


def test_moving_statistics_are_the_averages_of_the_replicas(two):
    x, _ = next(replica_state.examples())
    for found in two:
        hidden = x @ found["norm/kernel"] + found["norm/bias"]
        parts = [hidden[rows] for rows in SPLIT_OF_FIVE]
        means = sum(len(part) / 5 * part.mean(0) for part in parts)
        variances = sum(len(part) / 5 * part.var(0) for part in parts)
        np.testing.assert_allclose(found["norm/mean/0"], 0.1 * means, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found["norm/variance/0"], 0.9 + 0.1 * variances, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["PSLoadBalancing(sync=False)", "PSLoadBalancing(staleness=1)"])
def test_statistics_of_workers_that_do_not_wait_become_their_average(strategy, tmp_path):
    both = train(tmp_path / "run", 2, 1, strategy)
    last = len(replica_state.SIZES) - 1
    assert not np.array_equal(*(found[f"norm/mean/{last}"] for found in both))
    for name, statistic in (("mean", "final_mean"), ("variance", "final_variance")):
        average = np.mean([found[f"norm/{name}/{last}"] for found in both], 0)
        for found in both:
            np.testing.assert_allclose(found[f"norm/{statistic}"], average, rtol=1e-6)
        np.testing.assert_array_equal(*(found[f"norm/{statistic}"] for found in both))


def test_batch_normalization_trains(two):
    for found in two:
        assert found["norm/losses"][-1] < 0.8 * found["norm/losses"][0]


def test_all_ranks_have_the_same_state(two):
    for name, value in two[0].items():
        for found in two[1:]:
            np.testing.assert_array_equal(value, found[name], err_msg=name)


def test_dropout_draws_what_one_device_draws(one, two):
    assert set(np.unique(two[0]["dropout/kept/0"])) == {0, 1 / (1 - replica_state.RATE)}
    for found in two:
        for k in range(len(replica_state.SIZES)):
            np.testing.assert_array_equal(found[f"dropout/kept/{k}"], one[f"dropout/kept/{k}"])
        np.testing.assert_allclose(found["dropout/weights"], one["dropout/weights"], rtol=1e-5)


def test_the_generator_ends_where_one_device_ends(one, two):
    for found in two:
        np.testing.assert_array_equal(found["dropout/seed"], one["dropout/seed"])


@pytest.mark.slow
@pytest.mark.parametrize("two", [pytest.param((2, 1), id="2x1")], indirect=True)
def test_the_same_run_again_gives_the_same(two, tmp_path):
    again = train(tmp_path / "again", 2, 1)[0]
    for name, value in two[0].items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
