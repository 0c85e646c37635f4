"""The corrected event simulation: nearer to what was measured, with intervals that are right as often as they say."""

from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import SimulatorError
from autodist.simulator import Calibration, EnsembleSimulator, EventSimulator, MeasuredStrategies, accuracy_of

from .test_learned import ALIKE, ONE_SLOW, measured

TRUE = EventSimulator(Calibration(servers=1.6, collective=1.9, step_s=4e-3))
LEVEL = 0.9


def taken(hosts, count, seed, *, truth=TRUE, noise=0.06, num_variables=12):
    """Strategies with times of other constants than those that the simulation comes with."""
    data = measured(hosts, count, seed, num_variables=num_variables)
    times = truth.score(data.table, data.domain, count) * np.random.default_rng(seed).lognormal(0, noise, count)
    return MeasuredStrategies(data.domain, data.table, times.astype(np.float32))


def covered(simulator, data):
    low, high = simulator.interval(data.table, data.domain, len(data), LEVEL)
    assert (low <= high).all()
    return float(((low <= data.step_s) & (data.step_s <= high)).mean())


def test_intervals_are_right_as_often_as_they_say():
    shares, errors, before = [], [], []
    for seed in range(4):
        seen, unseen = taken(ONE_SLOW, 30, seed), taken(ONE_SLOW, 100, seed + 50)
        simulator = EnsembleSimulator()
        simulator.fit([seen])
        shares.append(covered(simulator, unseen))
        scores = (one.score(unseen.table, unseen.domain, len(unseen)) for one in (simulator, EventSimulator()))
        after, unfitted = (accuracy_of(found, unseen.step_s).error for found in scores)
        errors.append(after)
        before.append(unfitted)
    assert np.mean(shares) == pytest.approx(LEVEL, abs=0.06)
    assert max(errors) < 0.08 < min(before)


def test_of_a_cluster_without_trials_less_is_sure():
    truths = [replace(TRUE, calibration=replace(TRUE.calibration, servers=factor)) for factor in (1.2, 1.5, 2.0)]
    seen = [taken(ALIKE, 25, n, truth=truth, num_variables=8 + n) for n, truth in enumerate(truths)]
    unseen = taken(ONE_SLOW, 60, 9)
    simulator = EnsembleSimulator()
    simulator.fit(seen)
    known, unknown = (
        np.log(np.divide(*simulator.interval(data.table, data.domain, len(data))[::-1])).mean()
        for data in (seen[0], unseen)
    )
    assert unknown > known
    assert covered(simulator, unseen) > 0.7
    scores = (one.score(unseen.table, unseen.domain, 60) for one in (simulator, EventSimulator()))
    after, before = (accuracy_of(found, unseen.step_s) for found in scores)
    assert after.error < before.error
    assert after.pairwise > before.pairwise - 0.02


def test_little_that_was_measured_changes_no_order_for_chance():
    data = taken(ALIKE, 60, 1, truth=EventSimulator(), noise=0.1)
    simulator = EnsembleSimulator()
    simulator.fit([data.take(np.arange(8, dtype=np.int32))])
    rest = data.take(np.arange(8, 60, dtype=np.int32))
    scores = (one.score(rest.table, rest.domain, len(rest)) for one in (simulator, EventSimulator()))
    learned, known = (accuracy_of(found, rest.step_s).pairwise for found in scores)
    assert learned > known - 0.03


def test_of_many_trials_some_are_enough(monkeypatch):
    monkeypatch.setattr("autodist.simulator.learned._ensemble._MOST", 30)
    simulator = EnsembleSimulator()
    simulator.fit([taken(ALIKE, 40, 0), taken(ONE_SLOW, 40, 1)])
    assert len(simulator.learned["factors"]) == 30


def test_it_knows_nothing_without_trials():
    data = taken(ALIKE, 3, 0)
    with pytest.raises(SimulatorError, match="has not learned anything"):
        EnsembleSimulator().interval(data.table, data.domain, 3)
    with pytest.raises(SimulatorError, match="there is nothing to learn from"):
        EnsembleSimulator().fit([data.take(np.array([0], np.int32))])
