"""Predictions for strategies before they were measured, against the times that they take."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from autodist.report.plots._searched import Searched, step_s_of
from autodist.report.plots._trial_texts import trial_text
from autodist.simulator import Floats, accuracy_of
from autodist.strategies import Strategy

Kind: TypeAlias = Literal["servers", "collectives", "both"]
"""Whether parameter servers synchronize the variables, or collectives, or each some."""

_FACTOR = 10.0


@dataclass(frozen=True)
class PredictionPoint:
    """A strategy that was predicted and measured.

    Attributes:
        predicted: Seconds of a step, or its rank among the predictions of its search, from 1.
        measured: The same of the measurement.
        kind: What synchronizes its variables.
        name: What it is, in a line.
    """

    predicted: float
    measured: float
    kind: Kind
    name: str = ""


@dataclass(frozen=True)
class PredictedAgainstMeasured:
    """How well the simulator predicted.

    Attributes:
        points: One per trial that has both; empty if the search had no simulator.
        are_seconds: Whether the points are in seconds; else they are ranks.
        pairwise: Share of the pairs of trials that were ranked rightly, as in
            :class:`autodist.simulator.Accuracy`; the mean of several searches. None if there is nothing to compare.
    """

    points: tuple[PredictionPoint, ...]
    are_seconds: bool = False
    pairwise: float | None = None


def predictions_of(searches: Sequence[Searched]) -> PredictedAgainstMeasured:
    """Predictions against measurements of searches of one graph on one cluster.

    A store does not say which simulator gave the scores. They are taken for seconds if all are positive and half of
    them are less than ten times too large or too small; scores of simulators that learn are not seconds. Such a
    simulator has changed with each batch of trials, so ranks over all of them judge it too hard.
    """
    known = [[t for t in searched.measured if t.predicted is not None] for searched in searches]
    # A simulator with the same score for all strategies counts as none.
    told = [trials for trials in known if len({trial.predicted for trial in trials}) > 1]
    scores = [np.array([trial.predicted for trial in trials], np.float32) for trials in told]
    times = [np.array([step_s_of(trial) for trial in trials], np.float32) for trials in told]
    are_seconds = all(_are_seconds(s, t) for s, t in zip(scores, times, strict=True))
    points = []
    for trials, predicted, measured in zip(told, scores, times, strict=True):
        pair = (predicted, measured) if are_seconds else (_ranks(predicted), _ranks(measured))
        kinds = [_kind(trial.strategy) for trial in trials]
        names = map(trial_text, trials)
        points += [
            PredictionPoint(float(p), float(m), kind, name)
            for p, m, kind, name in zip(*pair, kinds, names, strict=True)
        ]
    accuracies = [accuracy_of(s, t).pairwise for s, t in zip(scores, times, strict=True) if len(set(t)) > 1]
    return PredictedAgainstMeasured(
        tuple(points), are_seconds and bool(points), statistics.fmean(accuracies) if accuracies else None
    )


def _are_seconds(scores: Floats, step_s: Floats) -> bool:
    return bool((scores > 0).all()) and float(np.median(np.abs(np.log(scores / step_s)))) < np.log(_FACTOR)


def _ranks(values: Floats) -> Floats:
    from scipy.stats import rankdata

    ranks: Floats = rankdata(values)
    return ranks


def _kind(strategy: Strategy) -> Kind:
    destinations = [synchronizer.home for _, synchronizer in strategy.synchronizers]
    served = len(destinations) - destinations.count(None)
    return "servers" if served == len(destinations) else "both" if served else "collectives"
