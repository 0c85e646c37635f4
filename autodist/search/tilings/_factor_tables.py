"""Costs of operators, as tables over the layouts of their tensors: the least over the ways to cut them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from autodist.cost.resharding import WHOLE, AxisTiles, ConversionShares, shares_between, shares_with_copies
from autodist.search.tilings._coarse_graph import CoarseGraph, CoarseOperator, CoarseTensor, Form
from autodist.search.tilings._elimination import CostFactor

States: TypeAlias = tuple[int, ...]
"""Per axis of the mesh, the dim that it cuts, or `WHOLE`, or `PARTIAL`."""

Combination: TypeAlias = tuple[Form, ...]
"""Per axis of the mesh, how an operator is cut along it."""


@dataclass
class Tables:
    """Tables of one coarse graph on one mesh. Operators that are alike share one.

    Args:
        graph: The graph.
        lengths: Lengths of the axes of the mesh.
        tiles: How tiles lie.
        exchange_bytes: The price of an exchange that the computation waits for, in moved bytes, whatever it moves. It
            does not wait for what only gradients of variables need.
    """

    graph: CoarseGraph
    lengths: tuple[int, ...]
    tiles: AxisTiles = AxisTiles.BOXES
    exchange_bytes: float = 0.0
    _tables: dict[object, NDArray[np.float64]] = field(default_factory=dict)
    _combined: dict[object, tuple[Combination, ...]] = field(default_factory=dict)

    def combinations(self, operator: CoarseOperator) -> tuple[Combination, ...]:
        """How an operator can be cut along all axes: evenly, and whole along as few axes as possible."""
        key = (operator.forms, operator.may_repeat, len(operator.operands))
        if key not in self._combined:
            self._combined[key] = self._combine(operator)
        return self._combined[key]

    def _combine(self, operator: CoarseOperator) -> tuple[Combination, ...]:
        forms = (*operator.forms, operator.whole)
        every = [c for c in itertools.product(forms, repeat=len(self.lengths)) if self._is_even(c)]
        if not operator.may_repeat:  # sums of terms are impossible here, so cuts must not make them
            fewest = min(_repeated(c) for c in every if all(f.index or f == operator.whole for f in c))
            every = [c for c in every if sum(form == operator.whole for form in c) <= fewest]
        by_states = {tuple(form.states for form in c): c for c in reversed(every)}
        return tuple(reversed(by_states.values()))

    def _is_even(self, combination: Combination) -> bool:
        parts: dict[Form, int] = {}
        for form, length in zip(combination, self.lengths, strict=True):
            parts[form] = parts.get(form, 1) * length
        unequal = self.graph.unequal and len(self.lengths) == 1
        return all(form.can_be_cut(count, unequal=unequal) for form, count in parts.items())

    def factor(
        self, operator: CoarseOperator, domains: Sequence[tuple[States, ...]], among: tuple[Combination, ...]
    ) -> CostFactor:
        """The table of one operator, over the layouts that its tensors may have.

        Args:
            operator: The operator.
            domains: By tensor, the layouts.
            among: The ways to cut it.
        """
        tensors = [self.graph.tensors[t] for t in operator.operands]
        scope = tuple(dict.fromkeys(operator.operands))
        equal = tuple(scope.index(t) for t in operator.operands)
        sizes = tuple((t.shape, t.item_bytes, t.stored > 0) for t in tensors)
        dims = tuple(self.graph.dims[t] for t in operator.operands)
        given = tuple(domains[t] for t in operator.operands)
        key = (len(operator.inputs), operator.count, equal, sizes, dims, given, among)
        if key not in self._tables:
            costs = self._costs(operator, given, among)
            shape = [len(domains[t]) for t in scope]
            self._tables[key] = _least(costs, equal, shape)
        return CostFactor(scope, self._tables[key])

    def by_operand(
        self,
        operator: CoarseOperator,
        domains: Sequence[tuple[States, ...]],
        among: tuple[Combination, ...],
        variable: int,
    ) -> list[CostFactor]:
        """One table for each tensor of an operator, over its layouts and the ways to cut the operator.

        Args:
            operator: One of many operands, for which one table of all would be too large.
            domains: By tensor, the layouts.
            among: The ways to cut it.
            variable: The number of the variable that represents the way to cut.
        """
        given = tuple(domains[t] for t in operator.operands)
        totals: dict[int, NDArray[np.float64]] = {}
        for t, costs in zip(operator.operands, self._costs(operator, given, among), strict=True):
            totals[t] = totals[t] + costs.T if t in totals else costs.T
        return [CostFactor((t, variable), costs) for t, costs in totals.items()]

    def best(
        self, operator: CoarseOperator, layouts: Sequence[States], among: tuple[Combination, ...]
    ) -> tuple[float, Combination]:
        """The cheapest way to cut an operator whose tensors lie as given, and what it costs."""
        costs = sum(self._costs(operator, [(states,) for states in layouts], among))
        assert isinstance(costs, np.ndarray)
        place = int(costs[:, 0].argmin())
        return float(costs[place, 0]), among[place]

    def once(self, layouts: Sequence[States], ways: Sequence[Combination]) -> float:
        """The move if a tensor that several operators need in one form is brought into it once.

        Args:
            layouts: By tensor, how it lies.
            ways: By operator, how it is cut.
        """
        moved: dict[object, float] = {}
        for operator, way in zip(self.graph.operators, ways, strict=True):
            given = [(layouts[t],) for t in operator.operands]
            for place, costs in enumerate(self._costs(operator, given, (way,))):
                states, is_input = tuple(form.states[place] for form in way), place < len(operator.inputs)
                # Outputs are converted for each operator, even if others add to the same tensor.
                key = (operator.operands[place], states) if is_input else (operator.name, place, states)
                moved[key] = max(moved.get(key, 0.0), float(costs[0, 0]))
        return sum(moved.values())

    def _costs(
        self, operator: CoarseOperator, given: Sequence[tuple[States, ...]], among: tuple[Combination, ...]
    ) -> list[NDArray[np.float64]]:
        """By operand, the cost of converting it between each of its layouts and the one that each combination needs."""
        found = []
        for place, at in enumerate(operator.operands):
            tensor, dims = self.graph.tensors[at], self.graph.dims[at]
            shares = self._shares(max(1, len(dims)))
            layouts = [_number(shares, states, dims) for states in given[place]]
            needed = [_number(shares, tuple(form.states[place] for form in c), dims) for c in among]
            if place < len(operator.inputs):
                moved = shares.moved[np.ix_(layouts, needed)].T
            else:
                moved = shares.moved[np.ix_(needed, layouts)]
            halos = np.array([self._halo(c, place, tensor) for c in among])[:, None]
            costs = (moved + halos) * float(tensor.size_bytes * operator.count)
            if self.exchange_bytes and not (tensor.stored and place >= len(operator.inputs)):
                costs += (costs > 0) * (self.exchange_bytes * operator.count)
            found.append(costs)
        return found

    def _shares(self, rank: int) -> ConversionShares:
        if len(self.lengths) == 1:
            return shares_with_copies(self.lengths[0], rank)
        return shares_between(self.lengths, rank, self.tiles)

    def _halo(self, combination: Combination, place: int, tensor: CoarseTensor) -> float:
        """The rows that neighbours give each other besides their own parts, as a share of a tensor."""
        total = 0.0
        for form in set(combination):
            if not form.halos or not form.halos[place]:
                continue
            parts = prod(n for f, n in zip(combination, self.lengths, strict=True) if f == form)
            whole = prod(n for f, n in zip(combination, self.lengths, strict=True) if f.states[place] == WHOLE)
            total += whole * (parts - 1) * form.halos[place] / tensor.shape[form.states[place]]
        return total


def _repeated(combination: Combination) -> int:
    """The number of axes along which each device does all of the work."""
    return sum(not form.index for form in combination)


def _number(shares: ConversionShares, states: States, dims: tuple[int, ...]) -> int:
    return shares.number[tuple(dims.index(state) if state >= 0 else state for state in states)]


def _least(costs: list[NDArray[np.float64]], equal: tuple[int, ...], shape: list[int]) -> NDArray[np.float64]:
    """The least sum over combinations, by the layouts of each tensor; both costs of a repeated tensor count."""
    by_tensor = [np.zeros((len(costs[0]), size)) for size in shape]
    for at, cost in zip(equal, costs, strict=True):
        by_tensor[at] += cost
    least = np.full(shape, np.inf)
    for row in zip(*by_tensor, strict=True):
        total = np.zeros(())
        for part in row:
            total = total[..., None] + part
        np.minimum(least, total, out=least)
    return least
