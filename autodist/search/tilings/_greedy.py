"""Spartan's search: one tensor after another, that with the most neighbours first, without going back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from autodist.search.tilings._elimination import CostFactor

_NOTHING: Mapping[tuple[int, int], float] = MappingProxyType({})


def greedy(
    factors: Sequence[CostFactor],
    sizes: Sequence[int],
    *,
    defers_ties: bool = False,
    extra_bytes: Mapping[tuple[int, int], float] = _NOTHING,
    budget_bytes: float = 0.0,
) -> tuple[float, tuple[int, ...]]:
    """Return what choosing greedily costs, and the values that are chosen.

    The variable that is bound to the most others is given the value with which its tables cost the least, the best of
    what is left being taken for the others (Spartan, figure 2.8: maximum connectivity group first).

    Args:
        factors: The tables that are summed.
        sizes: By variable, how many values it has.
        defers_ties: Whether variables with several cheapest values wait for those that have a preference. The published
            algorithm takes the first value.
        extra_bytes: By variable and value, the additional memory of copies in bytes.
        budget_bytes: The available bytes for copies.

    Example:
        >>> table = np.array([[3.0, 1.0], [0.0, 9.0]])
        >>> greedy([CostFactor((0, 1), table)], [2, 2])
        (0.0, (1, 0))
    """
    search = _Greedy(factors, sizes)
    left = set(range(len(sizes)))
    while left:
        for variable in left:
            search.forbid_beyond(variable, budget_bytes, extra_bytes)
        chosen = search.next_of(left, defers_ties)
        left.remove(chosen)
        value = search.settle(chosen)
        budget_bytes -= extra_bytes.get((chosen, value), 0.0)
    return search.cost(), tuple(int(found[0]) for found in search.remaining)


class _Greedy:
    def __init__(self, factors: Sequence[CostFactor], sizes: Sequence[int]) -> None:
        self._factors = factors
        self._using: dict[int, list[int]] = defaultdict(list)
        beside: dict[int, set[int]] = defaultdict(set)
        for number, factor in enumerate(factors):
            for variable in factor.scope:
                self._using[variable].append(number)
                beside[variable].update(factor.scope)
        self.remaining: list[NDArray[np.intp]] = [np.arange(size) for size in sizes]
        self._order = sorted(range(len(sizes)), key=lambda variable: -len(beside[variable]))
        self._costs: dict[int, NDArray[np.float64]] = {}

    def forbid_beyond(self, variable: int, budget: float, extra: Mapping[tuple[int, int], float]) -> None:
        """Leave out the values that need too much memory."""
        if not extra:
            return
        kept = [v for v in self.remaining[variable] if extra.get((variable, int(v)), 0.0) <= budget]
        if len(kept) < len(self.remaining[variable]):
            self.remaining[variable] = np.array(kept)
            self._forget(variable)

    def next_of(self, left: set[int], defers_ties: bool) -> int:
        """The variable to decide."""
        order = [variable for variable in self._order if variable in left]
        if defers_ties:
            for variable in order:
                costs = np.sort(self._costs_of(variable))
                if len(costs) == 1 or costs[1] > costs[0] + 1e-9 * abs(costs[0]):
                    return variable
        return order[0]

    def settle(self, variable: int) -> int:
        """Give a variable its cheapest value."""
        value = int(self.remaining[variable][int(self._costs_of(variable).argmin())])
        self.remaining[variable] = np.array([value])
        self._forget(variable)
        return value

    def _forget(self, variable: int) -> None:
        for number in self._using[variable]:
            for other in self._factors[number].scope:
                self._costs.pop(other, None)

    def _costs_of(self, variable: int) -> NDArray[np.float64]:
        if variable not in self._costs:
            total = np.zeros(len(self.remaining[variable]))
            for number in self._using[variable]:
                factor = self._factors[number]
                table = factor.costs[np.ix_(*(self.remaining[v] for v in factor.scope))]
                place = factor.scope.index(variable)
                total += table.min(tuple(d for d in range(table.ndim) if d != place))
            self._costs[variable] = total
        return self._costs[variable]

    def cost(self) -> float:
        """The cost of the chosen values."""
        return sum(float(f.costs[tuple(int(self.remaining[v][0]) for v in f.scope)]) for f in self._factors)
