"""Variants of measured strategies with tiled variables, which a search tries although its space lacks them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autodist.errors import StrategyError
from autodist.search._memory_filter import MemoryFilter
from autodist.search._with_tiles_instead import can_tile_steps
from autodist.search.space import Rule, obeys
from autodist.search.tilings import tiled_cuts, with_tiles
from autodist.simulator import Domain, EventSimulator
from autodist.strategies import Strategy, check

TILED = "tiled"
"""The origin of trials with these variants."""


class TiledVariants:
    """Strategies with their largest variables tiled, one at a time.

    The dims to cut depend on the whole step, so a space in which variables are chosen one by one can't have tiles.

    Attributes:
        is_over: Whether there are no variants, or those that were tried have failed.
    """

    def __init__(self, domain: Domain, rules: Sequence[Rule] = ()) -> None:
        self._domain = domain
        self._rules = rules
        self._room = MemoryFilter(domain)
        self._cuts: Mapping[int, Mapping[str, int]] | None = None
        self.is_over = not can_tile_steps(domain)

    def of(self, strategy: Strategy, known: Collection[str], hopeless: float) -> Strategy | None:
        """The variant of a strategy that is expected to be the fastest of those that are not known; None without any.

        Args:
            strategy: For all devices.
            known: Identities of the strategies that were tried.
            hopeless: The largest expected step time of a variant, relative to the strategy's.
        """
        if self.is_over or strategy.has_tiles:
            return None
        graph, spec = self._domain.graph, self._domain.spec
        try:
            if self._cuts is None:
                self._cuts = tiled_cuts(graph, spec, may_group=True)
            drawn = list(with_tiles(graph, spec, [strategy], self._cuts))
        except StrategyError:  # nothing is known of the step
            self.is_over = True
            return None
        found = [one for one in drawn if one.id not in known and self._fits(one)]
        if not found:
            return None
        own_s, *times_s = EventSimulator().predict([strategy, *found], self._domain).tolist()
        return found[times_s.index(min(times_s))] if min(times_s) < hopeless * own_s else None

    def note_failure(self, variant: Strategy) -> None:
        """Have no more variants like one that has failed: in groups of replicas, or any."""
        if variant.groups_of_replicas > 1 and self._cuts is not None:
            self._cuts = {1: self._cuts[1]}
        else:
            self.is_over = True

    def _fits(self, strategy: Strategy) -> bool:
        if not strategy.has_tiles or not obeys(strategy, self._rules) or self._room.why_not(strategy):
            return False
        try:
            check(strategy, self._domain.graph, self._domain.spec)
        except StrategyError:
            return False
        return True
