"""A genetic algorithm: strategies are crossed variable by variable."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from autodist.search.searchers._base import Score, ScoredProposals, Searcher
from autodist.search.space import Proposals, rearranged, sample
from autodist.simulator import Floats

_POPULATION = 200
_ELITE = 20
_MUTATION = 0.03


@final
class GeneticSearcher(Searcher):
    """Crosses the best strategies of a population, and changes some variables of their children (thesis 8.3.2).

    Every later round breeds from measured strategies: the population begins with the fastest ones.
    """

    name: ClassVar[str] = "genetic"

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._measured: ScoredProposals | None = None

    def ask(self, score: Score, effort: int, count: int) -> ScoredProposals:
        """Breed as many generations as the effort allows, and return the best of all."""
        population = self._first(score, min(effort, _POPULATION))
        best = population
        for _ in range(effort // _POPULATION - 1):
            children = self._children(population)
            scored = ScoredProposals.best_of(children, score(children), len(children))
            population = population.merged(scored, _POPULATION)
            best = best.merged(scored, max(count, _ELITE))
        return ScoredProposals.best_of(best.proposals, best.scores, count)

    def tell(self, proposals: Proposals, step_s: Floats) -> None:
        """Keep the fastest for breeding."""
        ran = np.flatnonzero(np.isfinite(step_s)).astype(np.int32)
        found = ScoredProposals.best_of(proposals.take(ran), step_s[ran], _ELITE)
        self._measured = found if self._measured is None else self._measured.merged(found, _ELITE)

    def _first(self, score: Score, count: int) -> ScoredProposals:
        drawn = sample(self.space, self.catalogue, count, self.chance)
        if self._measured is not None:
            drawn = Proposals.joined([self._measured.proposals, drawn])
        return ScoredProposals.best_of(drawn, score(drawn), len(drawn))

    def _children(self, population: ScoredProposals) -> Proposals:
        """Children with two parents each, where better parents are likelier, and with some new choices."""
        likely = 1.0 / np.arange(1, len(population.scores) + 1)
        parents = self.chance.choice(len(likely), size=(2, _POPULATION), p=likely / likely.sum()).astype(np.int32)
        one, other = (population.proposals.take(numbers) for numbers in parents)
        crossed = one.crossed(other, self.chance.random(one.choices.shape) < 0.5, self.catalogue)
        fresh = sample(self.space, self.catalogue, len(crossed), self.chance)
        mutated = crossed.crossed(fresh, self.chance.random(one.choices.shape) < _MUTATION, self.catalogue)
        return rearranged(mutated, self.space, self.catalogue, self.chance)
