"""How well predictions rank: the loss that simulators learn by, and the figures by which they are judged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autodist.simulator._message_table import Floats, Ints


def pairs(step_s: Floats, partitions: Ints, penalty_s: float = 0.0) -> Ints:
    """The pairs (slower, faster) of the ranking loss; shape (pairs, 2).

    A pair (i, j) counts if f_i + sigma I(P_i, P_j) > f_j, where I is the sign of P_i - P_j: of two strategies that take
    equally long, that with more shards counts as the slower one (thesis 8.3.1).

    Args:
        step_s: f, the seconds of each strategy's step.
        partitions: P, the total number of shards of each.
        penalty_s: sigma, in seconds.

    Example:
        >>> pairs(np.float32([1.0, 2.0]), np.int32([1, 1])).tolist()
        [[1, 0]]
    """
    signs = np.sign(partitions[:, None].astype(np.int64) - partitions[None, :])
    slower, faster = np.nonzero(step_s[:, None] + penalty_s * signs > step_s[None, :])
    return np.stack([slower, faster], 1).astype(np.int32)


@dataclass(frozen=True)
class Accuracy:
    """How well scores rank measured strategies.

    Attributes:
        pairwise: Fraction of the pairs of different times that are ranked rightly; ties of scores count half.
        kendall_tau: Kendall's tau, from -1 to 1, with ties taken into account.
        regret: The fraction by which the strategy with the best score takes longer than the fastest one.
        error: Median of the relative errors of the scores as times; only useful if scores are seconds.
        covered: Fraction of the times that are in the simulator's 90 % interval; NaN if it gives none.
    """

    pairwise: float
    kendall_tau: float
    regret: float
    error: float
    covered: float = float("nan")


def accuracy_of(scores: Floats, step_s: Floats, least_gap: float = 0.0) -> Accuracy:
    """How well scores rank times.

    Args:
        scores: The smaller, the faster.
        step_s: The measured seconds per step; at least two that differ.
        least_gap: Pairs whose times differ by less than this fraction of the shorter one are left out of
            :attr:`Accuracy.pairwise`: a second measurement might order them otherwise.

    Example:
        >>> accuracy_of(np.float32([3, 1, 2]), np.float32([0.3, 0.1, 0.2])).pairwise
        1.0
    """
    from scipy.stats import kendalltau

    slower, faster = pairs(step_s, np.zeros(len(step_s), np.int32)).T
    is_apart = step_s[slower] >= (1 + least_gap) * step_s[faster]
    gaps = np.sign(scores[slower] - scores[faster])[is_apart]
    best = float(step_s[int(np.argmin(scores))])
    return Accuracy(
        float((gaps + 1).mean() / 2) if len(gaps) else float("nan"),
        float(kendalltau(scores, step_s).statistic),
        best / float(step_s.min()) - 1,
        float(np.median(np.abs(scores - step_s) / step_s)),
    )
