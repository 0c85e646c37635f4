"""The contract of searchers."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from autodist.search._proposals import Proposals
from autodist.simulator import Floats

if TYPE_CHECKING:
    from autodist.search._catalogue import Catalogue
    from autodist.search._space import Space

__all__ = ["Found", "Score", "Searcher"]

Score: TypeAlias = Callable[[Proposals], Floats]
"""What a simulator expects of proposals: the smaller, the better."""


@dataclass(frozen=True)
class Found:
    """Proposals with their scores, the best first.

    Attributes:
        proposals: Different ones.
        scores: Of each.

    """

    proposals: Proposals
    scores: Floats

    @classmethod
    def best_of(cls, proposals: Proposals, scores: Floats, count: int) -> Found:
        """The best ones, of several that are alike only one."""
        _, first = np.unique(proposals.fingerprints, return_index=True)
        order = first[np.argsort(scores[first], kind="stable")][:count].astype(np.int32)
        return cls(proposals.take(order), scores[order])

    def merged(self, other: Found, count: int) -> Found:
        """The best ones of both."""
        joined = Proposals.joined([self.proposals, other.proposals])
        return Found.best_of(joined, np.concatenate([self.scores, other.scores]), count)


class Searcher(abc.ABC):
    """Proposes strategies that a simulator thinks well of (thesis 8.3.2). Has no files and no clock.

    Args:
        space: Where it looks.
        catalogue: Of the space.
        seed: Of everything that it draws.

    """

    name: ClassVar[str]
    """What users call it."""

    def __init__(self, space: Space, catalogue: Catalogue, seed: int = 0) -> None:
        self.space = space
        self.catalogue = catalogue
        self.chance = np.random.default_rng(seed)

    @abc.abstractmethod
    def ask(self, score: Score, effort: int, count: int) -> Found:
        """Look at many strategies and return the best.

        Args:
            score: What the simulator says.
            effort: How many strategies are scored, about.
            count: How many are returned at most.

        """

    def tell(self, proposals: Proposals, step_s: Floats) -> None:  # noqa: B027 some have nothing to learn
        """Learn what strategies that were proposed really take; not a number for one that failed.

        Args:
            proposals: What was measured.
            step_s: Seconds per step of each.

        """
