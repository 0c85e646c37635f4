"""Calibration by trials: constants that made the times are found again, and others stay what they were."""

from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import SimulatorError
from autodist.simulator import (
    AnalyticSimulator,
    Calibration,
    EventSimulator,
    MeasuredStrategies,
    accuracy_of,
    calibrated,
    cross_validated,
    trained,
    transferred,
)

from .test_learned import ALIKE, ONE_SLOW, measured

TRUE = Calibration(servers=1.9, collective=2.6, message_s=6e-4, step_s=1.5e-3)


def taken_by(simulator, data, noise=0.0):
    """The same strategies, with the times that a simulator gives them."""
    times = simulator.score(data.table, data.domain, len(data))
    disturbed = times * np.random.default_rng(0).lognormal(0, noise, len(data)) if noise else times
    return MeasuredStrategies(data.domain, data.table, disturbed.astype(np.float32))


@pytest.mark.parametrize("kind", [EventSimulator, AnalyticSimulator])
def test_the_constants_that_made_the_times_are_found(kind):
    seen, unseen = (taken_by(kind(TRUE), measured(ONE_SLOW, 60, seed=seed)) for seed in (0, 1))
    found = calibrated(kind(), [seen])
    scores = found.score(unseen.table, unseen.domain, len(unseen))
    assert accuracy_of(scores, unseen.step_s).error < 0.05
    assert accuracy_of(kind().score(unseen.table, unseen.domain, len(unseen)), unseen.step_s).error > 0.3
    assert found.calibration.collective == pytest.approx(TRUE.collective, rel=0.2)
    assert found.calibration.servers == pytest.approx(TRUE.servers, rel=0.2)


def test_what_trials_say_nothing_of_stays_as_it_was():
    found = calibrated(EventSimulator(), [taken_by(EventSimulator(TRUE), measured(ALIKE, 40, seed=0))])
    assert found.calibration.horovod == pytest.approx(Calibration().horovod, rel=1e-3)
    assert found.calibration.horovod_s == pytest.approx(Calibration().horovod_s, rel=1e-3)


def test_a_few_wild_measurements_do_not_spoil_it():
    seen, unseen = (taken_by(EventSimulator(TRUE), measured(ONE_SLOW, 60, seed=seed)) for seed in (0, 1))
    wild = seen.step_s.copy()
    wild[::12] *= 8
    found = calibrated(EventSimulator(), [replace(seen, step_s=wild)])
    assert accuracy_of(found.score(unseen.table, unseen.domain, len(unseen)), unseen.step_s).error < 0.15


def test_of_several_clusters_each_says_its_constants_and_one_that_is_unlike_changes_little():
    usual = [
        taken_by(EventSimulator(TRUE), measured(where, 40, seed=seed)) for seed, where in enumerate((ALIKE, ONE_SLOW))
    ]
    odd = taken_by(EventSimulator(replace(TRUE, servers=20.0)), measured(ALIKE, 40, seed=2))
    found = calibrated(EventSimulator(), [*usual, odd]).calibration
    assert found.servers == pytest.approx(TRUE.servers, rel=0.25)


def test_without_measurements_there_is_nothing_to_calibrate_by():
    with pytest.raises(SimulatorError, match="nothing to calibrate by"):
        calibrated(EventSimulator(), [])


def test_accuracy_is_that_of_what_was_held_out():
    data = taken_by(EventSimulator(TRUE), measured(ONE_SLOW, 50, seed=0), noise=0.02)
    found = cross_validated(EventSimulator, data, folds=5)
    assert 0.85 < found.pairwise < 1.0
    assert cross_validated(EventSimulator, data, folds=5, least_gap=0.1).pairwise > found.pairwise
    other = taken_by(EventSimulator(TRUE), measured(ALIKE, 50, seed=1))
    assert transferred(EventSimulator, [data], other).pairwise > 0.9


def test_simulators_that_can_learn_nothing_stay_as_they_are():
    from autodist.simulator import IndifferentSimulator

    indifferent = IndifferentSimulator()
    assert trained(indifferent, [measured(ALIKE, 10, seed=0)]) is indifferent
