"""How well simulators rank strategies that they have not seen, in the same domain and in others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._base import Simulator
from autodist.simulator._measured import MeasuredStrategies
from autodist.simulator._message_table import Ints
from autodist.simulator.formulas import Calibrated, calibrated
from autodist.simulator.learned import Accuracy, EnsembleSimulator, LearnedSimulator, accuracy_of

if TYPE_CHECKING:
    from autodist.simulator._message_table import Floats


def trained(simulator: Simulator, data: Sequence[MeasuredStrategies]) -> Simulator:
    """The simulator after it has seen measured strategies: it has learned from them, or is calibrated by them.

    Args:
        simulator: A simulator; one that learns is changed, one that can't learn is returned unchanged.
        data: The measured strategies.
    """
    if isinstance(simulator, LearnedSimulator):
        simulator.fit(data)
        return simulator
    return calibrated(simulator, data) if isinstance(simulator, Calibrated) else simulator


def cross_validated(
    make: Callable[[], Simulator], data: MeasuredStrategies, *, folds: int = 5, seed: int = 0, least_gap: float = 0.0
) -> Accuracy:
    """How well a simulator ranks strategies after it has seen others of the same domain: the mean over folds.

    Args:
        make: Makes a new simulator.
        data: The measured strategies, cut at random into equal parts; each part is left out once and then ranked.
        folds: How many parts.
        seed: Seed of the cut.
        least_gap: See :func:`accuracy_of`.
    """
    found = []
    for held_out in _folds(len(data), folds, seed):
        seen = data.take(np.setdiff1d(np.arange(len(data), dtype=np.int32), held_out))
        found.append(_judged(trained(make(), [seen]), data.take(held_out), least_gap))
    return _mean(found)


def transferred(
    make: Callable[[], Simulator],
    sources: Sequence[MeasuredStrategies],
    target: MeasuredStrategies,
    *,
    least_gap: float = 0.0,
) -> Accuracy:
    """How well a simulator ranks the strategies of a domain after it has seen only other domains.

    Args:
        make: Makes a new simulator.
        sources: The data that it sees.
        target: The data that it ranks.
        least_gap: See :func:`accuracy_of`.
    """
    return _judged(trained(make(), sources), target, least_gap)


def _folds(count: int, folds: int, seed: int) -> Iterator[Ints]:
    shuffled = np.random.default_rng(seed).permutation(count).astype(np.int32)
    yield from (np.sort(shuffled[first::folds]) for first in range(folds))


def _judged(simulator: Simulator, data: MeasuredStrategies, least_gap: float) -> Accuracy:
    scores: Floats = simulator.score(data.table, data.domain, len(data))
    found = accuracy_of(scores, data.step_s, least_gap)
    if not isinstance(simulator, EnsembleSimulator):
        return found
    low, high = simulator.interval(data.table, data.domain, len(data))
    return replace(found, covered=float(((low <= data.step_s) & (data.step_s <= high)).mean()))


def _mean(found: Sequence[Accuracy]) -> Accuracy:
    """The mean of each figure; a fold with nothing to compare does not count."""
    columns = ([getattr(accuracy, field.name) for accuracy in found] for field in fields(Accuracy))
    known = ([value for value in column if not np.isnan(value)] for column in columns)
    return Accuracy(*(float(np.mean(values)) if values else float("nan") for values in known))
