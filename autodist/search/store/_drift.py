"""The drift of a cluster's speed during a search, as shown by one strategy that is measured repeatedly."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from autodist.search.store._trials import Measurement, Trial

_LEAST = 3
"""The least number of measurements of the reference strategy from which a drift is estimated."""
_AROUND = 3
"""The number of successive measurements whose median is taken, to reduce noise."""
_UNSEEN = 0.5
"""A drift whose variance is below this fraction of the noise's is ignored: correcting for it would add noise."""
_OF_NORMAL = 0.6745
"""The median distance from the mean of a normal distribution, in standard deviations."""


@dataclass(frozen=True)
class Drift:
    """By which factor steps took longer than usually, over time.

    Attributes:
        times_s: The times at which the reference strategy was measured, in seconds, ascending.
        factors: The step time at each of them relative to the median of all, smoothed over neighbours.
    """

    times_s: tuple[float, ...] = ()
    factors: tuple[float, ...] = ()

    def at(self, time_s: float) -> float:
        """The factor at a time; 1 if nothing is known of it.

        Example:
            >>> Drift((0.0, 10.0), (1.0, 1.2)).at(5.0)
            1.1
        """
        known = bool(self.times_s) and time_s > 0
        return round(float(np.interp(time_s, self.times_s, self.factors)), 9) if known else 1.0

    @property
    def share(self) -> float:
        """The fraction by which the slowest time was slower than the fastest."""
        return max(self.factors) / min(self.factors) - 1 if self.factors else 0.0


def drift_of(trials: Sequence[Trial]) -> Drift:
    """The drift that the most often measured trial of a search shows."""
    reference = max(trials, key=lambda trial: len(_timed(trial)), default=None)
    measured = [] if reference is None else sorted(_timed(reference), key=lambda one: one.ended_s)
    if len(measured) < _LEAST:
        return Drift()
    times = [one.step_s for one in measured]
    usual = statistics.median(times)
    half = _AROUND // 2
    smooth = [statistics.median(times[max(k - half, 0) : k + half + 1]) for k in range(len(times))]
    weight = _weight([math.log(step_s) for step_s in times])
    return Drift(tuple(one.ended_s for one in measured), tuple((one / usual) ** weight for one in smooth))


def _weight(logs: Sequence[float]) -> float:
    """Which part of the reference's changes is drift and not noise, judged by how far neighbours are apart.

    Example:
        >>> round(_weight([0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), 2), _weight([0.0, 0.1, 0.0, 0.1, 0.0, 0.1])
        (1.0, 0.0)
    """
    apart = statistics.median(abs(later - earlier) for earlier, later in itertools.pairwise(logs))
    noise = (apart / _OF_NORMAL / math.sqrt(2)) ** 2
    drift = statistics.variance(logs) - noise
    return min(max(drift / noise - _UNSEEN, 0.0), 1.0) if noise else 1.0


def _timed(trial: Trial) -> list[Measurement]:
    first = [trial.outcome] if isinstance(trial.outcome, Measurement) else []
    return [one for one in (*first, *trial.again) if one.ended_s and one.step_s > 0]


def steady(trials: Sequence[Trial]) -> list[Trial]:
    """The trials of one search with what they had taken without the drift: to learn from, and to compare.

    Args:
        trials: As they were measured, which is what is kept.
    """
    drift = drift_of(trials)
    return [_without(drift, trial) for trial in trials] if drift.share else list(trials)


def _without(drift: Drift, trial: Trial) -> Trial:
    again = tuple(_scaled(one, drift) for one in trial.again)
    outcome = _scaled(trial.outcome, drift) if isinstance(trial.outcome, Measurement) else trial.outcome
    return replace(trial, outcome=outcome, again=again)


def _scaled(measured: Measurement, drift: Drift) -> Measurement:
    factor = drift.at(measured.ended_s)
    return replace(measured, steps_s=tuple(step_s / factor for step_s in measured.steps_s))
