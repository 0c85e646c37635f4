"""The contract of searchers."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from autodist.search.space import Proposals
from autodist.simulator import Floats, Ints

if TYPE_CHECKING:
    from autodist.search.space import Catalogue, Space

Score: TypeAlias = Callable[[Proposals], Floats]
"""A simulator's expectations of proposals: the smaller, the better."""


@dataclass(frozen=True)
class ScoredProposals:
    """Proposals with their scores, the best first.

    Attributes:
        proposals: Proposals that differ from each other.
        scores: Score of each.
        lots: For each, the number of its lot; each lot has the same share of the measured ones as it has here. None if
            there is only one lot.
    """

    proposals: Proposals
    scores: Floats
    lots: Ints | None = None

    def __len__(self) -> int:
        return len(self.scores)

    @classmethod
    def best_of(cls, proposals: Proposals, scores: Floats, count: int) -> ScoredProposals:
        """The best ones; of several equal ones only one."""
        order = np.argsort(scores, kind="stable").astype(np.int32)
        looked_at = count + count // 4 + 1  # usually few are equal
        while True:
            best = proposals.take(order[:looked_at])
            _, first = np.unique(best.fingerprints, return_index=True)
            if len(first) >= count or looked_at >= len(order):
                chosen = np.sort(first)[:count].astype(np.int32)
                return cls(best.take(chosen), scores[order[chosen]])
            looked_at *= 2

    def improved(self, proposals: Proposals, scores: Floats, count: int) -> ScoredProposals:
        """The best ones of these and others."""
        if len(self) >= count:
            better = np.flatnonzero(scores < self.scores[count - 1]).astype(np.int32)
            proposals, scores = proposals.take(better), scores[better]
        return self.merged(ScoredProposals.best_of(proposals, scores, count), count) if len(scores) else self

    def merged(self, other: ScoredProposals, count: int) -> ScoredProposals:
        """The best ones of both."""
        return ScoredProposals.joined([self, other], count)

    def first(self, count: int) -> ScoredProposals:
        """The best ones of these."""
        return ScoredProposals(
            self.proposals.take(np.arange(min(count, len(self)), dtype=np.int32)), self.scores[:count]
        )

    @classmethod
    def joined(cls, several: Sequence[ScoredProposals], count: int | None = None) -> ScoredProposals:
        """The best ones of several."""
        proposals = Proposals.joined([found.proposals for found in several])
        scores = np.concatenate([found.scores for found in several])
        return cls.best_of(proposals, scores, len(scores) if count is None else count)

    @classmethod
    def of_lots(cls, several: Sequence[ScoredProposals], count: int) -> ScoredProposals:
        """Several lots as one, so many in all: the first one has what the others leave.

        A proposal that is in several lots belongs to the last of these.
        """
        proposals = Proposals.joined([found.proposals for found in several])
        scores = np.concatenate([found.scores for found in several])
        lots = np.repeat(np.arange(len(several), dtype=np.int32), [len(found) for found in several])
        _, last = np.unique(proposals.fingerprints[::-1], return_index=True)
        kept = np.sort(len(lots) - 1 - last)
        others = int((lots[kept] > 0).sum())
        kept = kept[(lots[kept] > 0) | (np.cumsum(lots[kept] == 0) <= count - others)]
        order = kept[np.argsort(scores[kept], kind="stable")].astype(np.int32)
        return cls(proposals.take(order), scores[order], lots[order])


class Searcher(abc.ABC):
    """Proposes strategies that a simulator ranks high (thesis 8.3.2). It uses no files and no clock.

    Args:
        space: The space that it searches.
        catalogue: Catalogue of the space.
        seed: Seed of everything that it draws.
    """

    name: ClassVar[str]
    """Its name for users."""

    def __init__(self, space: Space, catalogue: Catalogue, seed: int = 0) -> None:
        self.space = space
        self.catalogue = catalogue
        self.chance = np.random.default_rng(seed)

    def suggest(self, proposals: Proposals) -> None:  # noqa: B027 some begin with nothing
        """Take strategies that are worth a look, such as those that users know."""

    @abc.abstractmethod
    def ask(self, score: Score, effort: int, count: int) -> ScoredProposals:
        """Look at many strategies and return the best.

        Args:
            score: The simulator's scores.
            effort: About how many strategies are scored.
            count: How many are returned at most.
        """

    def tell(self, proposals: Proposals, step_s: Floats) -> None:  # noqa: B027 some have nothing to learn
        """Learn what strategies that were proposed really take; not a number for one that failed.

        Args:
            proposals: The measured strategies.
            step_s: Seconds per step of each; NaN for one that failed.
        """
