"""Selects the proposals to measure: good ones that differ (equation 8.4)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autodist.search.space import Catalogue, Proposals
from autodist.simulator import Floats, Ints


def select(
    scores: Floats, similarity: npt.NDArray[np.floating], count: int, alpha: float, lots: Ints | None = None
) -> list[int]:
    """Choose proposals with a small sum of scores and of similarities between them, one after the other (eq. 8.4).

    The greedy algorithm: each time the one that adds least to the sum. Scores are taken relative to their spread, for
    some simulators know seconds and some only an order.

    Args:
        scores: The smaller, the better.
        similarity: For each pair, 0 to 1; shape (proposals, proposals).
        count: How many are chosen at most.
        alpha: The penalty for a pair of equal proposals, in standard deviations of the scores.
        lots: For each proposal, the number of its lot, within which scores are compared; each lot has the same share of
            what is chosen as it has of all. By default all are of one.

    Example:
        >>> scores = np.array([1.0, 1.1, 2.0], np.float32)
        >>> alike = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], np.float32)
        >>> select(scores, alike, 2, alpha=0.1), select(scores, alike, 2, alpha=10.0)
        ([0, 1], [0, 2])
        >>> select(scores, alike, 2, alpha=0.1, lots=np.array([0, 0, 1], np.int32))
        [0, 2]
    """
    lots = np.zeros(len(scores), np.int32) if lots is None else lots
    sizes = np.bincount(lots)
    costs = np.zeros(len(scores))
    for lot in np.unique(lots):
        own = scores[lots == lot]
        costs[lots == lot] = (own - own.min()) / (float(np.std(own)) or 1.0)
    chosen: list[int] = []
    crowding = np.zeros(len(scores))
    for _ in range(min(count, len(scores))):
        totals = costs + 2 * alpha * crowding  # each pair counts twice in the sum
        totals[lots != _next_lot(sizes, np.bincount(lots[chosen], minlength=len(sizes)))] = np.inf
        totals[chosen] = np.inf
        chosen.append(int(np.argmin(totals)))
        crowding += similarity[chosen[-1]]
    return chosen


def _next_lot(sizes: npt.NDArray[np.intp], chosen: npt.NDArray[np.intp]) -> int:
    """The lot with the smallest chosen fraction; among several, the largest lot."""
    shares = np.where(sizes > 0, (chosen + 0.5) / np.maximum(sizes, 1), np.inf)
    return int(np.argmin(shares))


def agreement(proposals: Proposals, catalogue: Catalogue) -> Floats:
    """How many of all choices two proposals have in common, from 0 to 1 (the first measure of thesis 8.3.2).

    Five things of each unit count alike: its partition, its kind of synchronization, the rest of its choice, where its
    first shard is, and what that travels with; shape (proposals, proposals).
    """
    first = proposals.starts(catalogue)
    factors = [*np.moveaxis(catalogue.factors[proposals.choices], 2, 0)]
    factors += [proposals.table.server[first], proposals.table.group[first]]
    same = np.stack([_equal(values) for values in factors])
    share: Floats = same.sum(0, dtype=np.float32) / np.float32(len(factors) * proposals.choices.shape[1])
    return share


def _equal(values: npt.NDArray[np.int32]) -> Floats:
    """In how many columns each pair of rows has the same number."""
    width = values.max(initial=0) - values.min(initial=0) + 1
    numbers = np.unique(values + np.arange(values.shape[1]) * width, return_inverse=True)[1].reshape(values.shape)
    found = np.zeros((len(values), numbers.max(initial=0) + 1), np.float32)
    found[np.arange(len(values))[:, None], numbers] = 1
    pairs: Floats = found @ found.T
    return pairs


def cosine(features: Floats) -> Floats:
    """The cosine of a simulator's representations of two proposals (the second measure of thesis 8.3.2).

    Args:
        features: Hidden outputs or features, one row for each proposal.
    """
    centred = features - features.mean(0)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    unit = centred / np.maximum(lengths, 1e-12)
    found: Floats = np.clip((unit @ unit.T + 1) / 2, 0, 1).astype(np.float32)
    return found
