"""The spread of repeated measurements of strategies, and the best ranking that such measurements allow."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from autodist.search.store._drift import drift_of, steady
from autodist.search.store._trials import Measurement, Trial
from autodist.simulator import accuracy_of


@dataclass(frozen=True)
class Noise:
    """The noise in the trials of one search.

    Attributes:
        trials: Number of strategies that were measured.
        failed: Number of strategies that failed.
        several: Number of strategies that were measured at least twice.
        measurements: Number of all measurements.
        spread: Standard deviation of measurements around a strategy's true time, as a fraction of it.
        raw_spread: The same with the drift that the reference shows.
        drift: The fraction by which the slowest time of the machines was slower than the fastest.
        agreement: The fraction of the pairs of strategies that two of their measurements order alike.
        ceiling: The fraction of the pairs that one measurement orders as the true times do.
        seconds: Seconds from the first to the last measurement, without the time between sessions.

    Fractions are NaN if nothing was measured twice.
    """

    trials: int
    failed: int
    several: int
    measurements: int
    spread: float
    raw_spread: float
    drift: float
    agreement: float
    ceiling: float
    seconds: float

    @property
    def per_minute(self) -> float:
        """The number of measurements per minute."""
        return 60 * self.measurements / self.seconds if self.seconds else math.nan


_PAUSE = 5.0
"""Measurements that are this many times as far apart as usual belong to different sessions."""
_DRAWS = 200


def noise_of(trials: Sequence[Trial]) -> Noise:
    """The noise in the trials of one search.

    Args:
        trials: As they were measured.
    """
    measured = [trial for trial in trials if trial.step_s is not None]
    taken = {trial.number: _measurements(trial) for trial in measured}
    raw = _repeated(taken.values())
    several = _repeated([_measurements(trial) for trial in steady(measured)])
    spread = _spread(several)
    return Noise(
        trials=len(measured),
        failed=len(trials) - len(measured),
        several=sum(len(own) > 1 for own in taken.values()),
        measurements=sum(map(len, taken.values())),
        spread=spread,
        raw_spread=_spread(raw),
        drift=drift_of(measured).share,
        agreement=_agreement(several),
        ceiling=_ceiling(several, spread),
        seconds=_seconds([one.ended_s for own in taken.values() for one in own if one.ended_s]),
    )


def _measurements(trial: Trial) -> list[Measurement]:
    first = [trial.outcome] if isinstance(trial.outcome, Measurement) else []
    return [one for one in (*first, *trial.again) if one.step_s > 0]


def _repeated(taken: Collection[list[Measurement]]) -> list[list[Measurement]]:
    """The strategies measured several times; without the drift's reference, if there are others."""
    repeated = [own for own in taken if len(own) > 1]
    most = max(map(len, repeated), default=0)
    return [own for own in repeated if len(own) < most] or repeated


def _logs(measurements: Sequence[Measurement]) -> list[float]:
    return [math.log(one.step_s) for one in measurements]


def _spread(several: Sequence[Sequence[Measurement]]) -> float:
    """The standard deviation of logarithms of times within strategies, pooled over all of them."""
    freedom = sum(len(own) - 1 for own in several)
    squares = sum((len(own) - 1) * statistics.variance(_logs(own)) for own in several)
    return math.sqrt(squares / freedom) if freedom else math.nan


def _agreement(several: Sequence[Sequence[Measurement]]) -> float:
    if len(several) < 2:
        return math.nan
    first, second = (np.array([own[k].step_s for own in several], np.float32) for k in (0, 1))
    return accuracy_of(first, second).pairwise


def _ceiling(several: Sequence[Sequence[Measurement]], spread: float) -> float:
    """An oracle's score in ranking, from simulated measurements; true times are means shrunk by their own noise."""
    if len(several) < 2:
        return math.nan
    means = np.array([statistics.fmean(_logs(own)) for own in several])
    of_means = spread**2 * statistics.fmean(1 / len(own) for own in several)
    between = max(float(means.var(ddof=1)) - of_means, 0.0)
    if not between:
        return 0.5
    shrunk = math.sqrt(between / max(float(means.var(ddof=1)), 1e-12))
    true = means.mean() + shrunk * (means - means.mean())
    drawn = np.random.default_rng(0).normal(true, spread, (_DRAWS, len(true)))
    one, other = np.triu_indices(len(true), 1)
    return float((np.sign(true[one] - true[other]) == np.sign(drawn[:, one] - drawn[:, other])).mean())


def _seconds(ended_s: Sequence[float]) -> float:
    pauses = [later - earlier for earlier, later in itertools.pairwise(sorted(ended_s))]
    return sum(pause for pause in pauses if pause < _PAUSE * statistics.median(pauses))
