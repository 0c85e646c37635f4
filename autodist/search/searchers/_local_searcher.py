"""Local search: good strategies are changed a little, round by round."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.search.searchers._base import Score, ScoredProposals, Searcher
from autodist.search.searchers._moves import neighbours
from autodist.search.searchers._random_searcher import RandomSearcher
from autodist.search.space import Proposals
from autodist.simulator import Floats

if TYPE_CHECKING:
    from autodist.search.space import Catalogue, Space

_DRAWN, _NEAR = 0.2, 0.3
"""Fractions of the effort and of the returned strategies: draws, and neighbours of measured strategies."""
_ROUND, _BEAM = 200, 40
_FASTEST = 10
_CHANGED_AGAIN = 0.3
"""The fraction of a round's children that are changed once more."""


@final
class LocalSearcher(Searcher):
    """Changes one thing at a time in the best strategies that it knows, and goes on from the best of their children.

    It begins with draws, with strategies that users know, and with the best of its last search. In each round some of
    the best (a beam) get children: neighbours, children of two parents, and neighbours of these.

    Because a simulator may be wrong, the strategies that are returned after the first measurements come in three lots,
    and each lot has its share of those that are measured: the ones that the simulator prefers of all; the neighbours of
    the fastest measured strategies that it prefers; and the best of the draws. So it does not get stuck as the genetic
    algorithm does with a simulator that misleads it (thesis table 8.2).
    """

    name: ClassVar[str] = "local"

    def __init__(self, space: Space, catalogue: Catalogue, seed: int = 0) -> None:
        super().__init__(space, catalogue, seed)
        self._draws = RandomSearcher(space, catalogue, seed)
        self._draws.chance = self.chance
        self._measured: ScoredProposals | None = None
        self._beginnings: list[Proposals] = []

    def suggest(self, proposals: Proposals) -> None:
        """Begin with these as well."""
        self._beginnings.append(proposals)

    def tell(self, proposals: Proposals, step_s: Floats) -> None:
        """Keep the fastest, to look around them."""
        ran = np.flatnonzero(np.isfinite(step_s)).astype(np.int32)
        if not len(ran):
            return
        found = ScoredProposals.best_of(proposals.take(ran), step_s[ran], _FASTEST)
        self._measured = found if self._measured is None else self._measured.merged(found, _FASTEST)

    def ask(self, score: Score, effort: int, count: int) -> ScoredProposals:
        """Draw, look around what was measured, and go on from the best of all."""
        kept = max(count, _BEAM)
        draws = max(1, round(_DRAWN * effort))
        lots = [self._draws.ask(score, draws, kept)]
        if self._measured is not None:
            lots.append(self._around(self._measured, score, max(1, round(_NEAR * effort)), kept))
            draws += round(_NEAR * effort)
        begun = ScoredProposals.joined(
            [*lots, *(ScoredProposals.best_of(p, score(p), _BEAM) for p in self._beginnings)]
        )
        draws += sum(map(len, self._beginnings))
        best = self._climbed(begun, score, effort - draws, kept)
        self._beginnings = [best.first(_BEAM).proposals]
        if self._measured is None:
            return best.first(count)
        shares = zip(lots, (_DRAWN, _NEAR), strict=True)
        return ScoredProposals.of_lots([best, *(lot.first(round(share * count)) for lot, share in shares)], count)

    def _around(self, parents: ScoredProposals, score: Score, effort: int, count: int) -> ScoredProposals:
        """The best neighbours of some strategies."""
        found: ScoredProposals | None = None
        for size in _rounds(effort):
            children = self._children(parents, size)
            scores = score(children)
            found = (
                ScoredProposals.best_of(children, scores, count)
                if found is None
                else found.improved(children, scores, count)
            )
        assert found is not None
        return found

    def _climbed(self, begun: ScoredProposals, score: Score, effort: int, count: int) -> ScoredProposals:
        """The best after as many rounds as the effort allows, each around the best of all before it."""
        best = begun
        for size in _rounds(effort):
            children = self._children(best, size)
            best = best.improved(children, score(children), count)
        return best

    def _children(self, parents: ScoredProposals, count: int) -> Proposals:
        """Neighbours of the best, which are likelier the better they are; some of them are neighbours of neighbours."""
        likely = 1.0 / np.arange(1, min(_BEAM, len(parents)) + 1)
        one, other = self.chance.choice(len(likely), (2, count), p=likely / likely.sum()).astype(np.int32)
        parts = [self._neighbours(parents.proposals.take(one), parents.proposals.take(other))]
        again = self.chance.random(count) < _CHANGED_AGAIN
        farther, rest = (np.flatnonzero(rows).astype(np.int32) for rows in (again, ~again))
        if len(farther):
            mates = parents.proposals.take(other[farther])
            parts = [parts[0].take(rest), self._neighbours(parts[0].take(farther), mates)]
        return Proposals.joined(parts)

    def _neighbours(self, parents: Proposals, mates: Proposals) -> Proposals:
        return neighbours(parents, mates, self.space, self.catalogue, self.chance)


def _rounds(effort: int) -> list[int]:
    """The sizes of rounds."""
    return [min(_ROUND, effort - begin) for begin in range(0, effort, _ROUND)]
