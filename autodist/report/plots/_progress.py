"""How fast the best strategy is after this many trials, as in figure 8.2 of the thesis."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from autodist.report.plots._searched import Searched, is_baseline
from autodist.report.plots._trial_texts import middle_half, trial_text
from autodist.search import Failure, Trial


@dataclass(frozen=True)
class Progress:
    """The course of a search. Speeds are relative to the fastest baseline: 2 takes half as long.

    Attributes:
        study: Its number.
        searcher: The searcher that proposed the trials.
        reference: The strategy of speed 1: the fastest baseline.
        reference_s: Seconds of its step.
        speeds: By trial; None if it failed or is a baseline.
        best: By trial, the best that the search itself had found by then; None before the first.
        baselines: By name, speeds of strategies that users know.
        failures: By the trial's place, counted from 0, why it failed.
        names: By trial, what it is, in a line.
        spreads: By name of a baseline, the speeds at the quartiles of its steps, the lower one first.
        best_spread: The same of the fastest trial.
    """

    study: int
    searcher: str
    reference: str
    reference_s: float
    speeds: tuple[float | None, ...]
    best: tuple[float | None, ...]
    baselines: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[int, str] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    spreads: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    best_spread: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class MeanProgress:
    """The mean course of searches that differ in chance alone.

    Attributes:
        searcher: The searcher that proposed the trials.
        num_studies: How many searches.
        best: After this many trials, the mean of the best speeds; as long as the shortest of the searches. None before
            all of them have found something.
        lowest: The smallest of them.
        highest: The largest of them.
    """

    searcher: str
    num_studies: int
    best: tuple[float | None, ...]
    lowest: tuple[float | None, ...]
    highest: tuple[float | None, ...]


def progress_of(searched: Searched, others: Sequence[Searched] = ()) -> Progress:
    """The course of a search.

    Args:
        searched: The search.
        others: Searches of the same graph on the same cluster, whose baselines count where this one has none. If no
            baseline was measured at all, the first measured trial has speed 1.
    """
    baselines = searched.baselines or next((other.baselines for other in others if other.baselines), {})
    first = searched.measured[0]
    reference, reference_s = min(
        baselines.items(), key=lambda item: item[1], default=(f"trial {first.number}", first.step_s or 0.0)
    )
    speeds = tuple(
        None if trial.step_s is None or is_baseline(trial) else reference_s / trial.step_s for trial in searched.trials
    )
    failures = {n: t.outcome.reason for n, t in enumerate(searched.trials) if isinstance(t.outcome, Failure)}
    return Progress(
        searched.study.id,
        searched.searcher,
        reference,
        reference_s,
        speeds,
        tuple(_best_so_far(speeds)),
        {name: reference_s / step_s for name, step_s in baselines.items()},
        failures,
        tuple(map(trial_text, searched.trials)),
        {name: _spread(trial, reference_s) for name, trial in searched.known.items()},
        _spread(searched.best, reference_s),
    )


def _spread(trial: Trial, reference_s: float) -> tuple[float, float]:
    low_s, high_s = middle_half(trial)
    return reference_s / high_s, reference_s / low_s


def mean_progress(courses: Sequence[Progress]) -> MeanProgress:
    """The mean course of searches by one searcher.

    Example:
        >>> curves = [(None, 2.0), (1.0, 1.0)]
        >>> mean_progress([Progress(1, "random", "PS", 1.0, (), curve) for curve in curves]).best
        (None, 1.5)
    """
    means: list[tuple[float, float, float] | None] = []
    for values in zip(*(course.best for course in courses), strict=False):
        found = [value for value in values if value is not None]
        is_whole = len(found) == len(courses)
        means.append((statistics.fmean(found), min(found), max(found)) if is_whole else None)
    best, lowest, highest = (tuple(None if m is None else m[k] for m in means) for k in range(3))
    return MeanProgress(courses[0].searcher, len(courses), best, lowest, highest)


def _best_so_far(speeds: Sequence[float | None]) -> Iterator[float | None]:
    yield from itertools.accumulate(speeds, lambda best, speed: max((s for s in (best, speed) if s), default=None))
