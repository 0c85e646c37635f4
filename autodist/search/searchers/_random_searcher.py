"""Random search: the thesis' default."""

from __future__ import annotations

from typing import ClassVar, final

from autodist.search.searchers._base import Score, ScoredProposals, Searcher
from autodist.search.space import sample

_CHUNK = 500


@final
class RandomSearcher(Searcher):
    """Draws strategies within the constraints and keeps the best.

    The thesis prefers it to the genetic one, which finds better ones on average but is misled by a simulator that it
    trusts too much (table 8.2).
    """

    name: ClassVar[str] = "random"

    def ask(self, score: Score, effort: int, count: int) -> ScoredProposals:
        """Draw, and keep the best."""
        best: ScoredProposals | None = None
        while effort > 0:
            drawn = sample(self.space, self.catalogue, min(effort, _CHUNK), self.chance)
            scores = score(drawn)
            best = (
                ScoredProposals.best_of(drawn, scores, count) if best is None else best.improved(drawn, scores, count)
            )
            effort -= len(drawn)
        assert best is not None
        return best
