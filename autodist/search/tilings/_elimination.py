"""Finds the assignment of least cost for variables in tables of costs, by eliminating one variable after another."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

MOST_CELLS = 5e6
"""Number of cells of the largest table that is made."""


class TooWide(Exception):
    """A table would be too large, because too many variables depend on each other."""


@dataclass(frozen=True)
class CostFactor:
    """The cost of each assignment of some variables.

    Attributes:
        scope: The variables, each once.
        costs: A table with one dim for each.
    """

    scope: tuple[int, ...]
    costs: NDArray[np.float64]


def eliminate(
    factors: Iterable[CostFactor], sizes: Sequence[int], order: Sequence[int], most: float = MOST_CELLS
) -> tuple[float, tuple[int, ...]]:
    """Return the least sum of costs, and for each variable the value that it has then.

    Args:
        factors: The tables that are summed.
        sizes: By variable, how many values it has.
        order: All variables, in the order of their elimination, which decides how large tables become.
        most: Number of cells of the largest table.

    Raises:
        TooWide: A table would be larger.

    Example:
        >>> table = np.array([[3.0, 1.0], [0.0, 9.0]])
        >>> eliminate([CostFactor((0, 1), table), CostFactor((0,), np.array([0.0, 2.0]))], [2, 2], [0, 1])
        (1.0, (0, 1))
    """
    using: dict[int, list[CostFactor]] = defaultdict(list)
    rank = {variable: at for at, variable in enumerate(order)}
    cost = 0.0

    def keep(factor: CostFactor) -> None:
        nonlocal cost
        if factor.scope:
            using[min(factor.scope, key=rank.__getitem__)].append(factor)
        else:
            cost += float(factor.costs)

    for factor in factors:
        keep(factor)
    choices: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    for variable in order:
        scope, table = _summed(using.pop(variable, []), variable, sizes, most)
        choices.append((variable, scope, table.argmin(-1)))
        keep(CostFactor(scope, table.min(-1)))
    values = [0] * len(sizes)
    for variable, scope, chosen in reversed(choices):
        values[variable] = int(chosen[tuple(values[other] for other in scope)])
    return cost, tuple(values)


def _summed(
    factors: list[CostFactor], variable: int, sizes: Sequence[int], most: float
) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    """The sum of tables, with the dim of one variable as the last."""
    scope = tuple(sorted({v for factor in factors for v in factor.scope if v != variable}))
    dims = (*scope, variable)
    shape = tuple(sizes[v] for v in dims)
    if prod(shape) > most:
        raise TooWide(f"a table of {prod(shape):.2g} cells is too large, allowed: {most:.2g}")
    total = np.zeros(shape)
    for factor in factors:
        by_rank = sorted(range(len(factor.scope)), key=lambda k: dims.index(factor.scope[k]))
        has = set(factor.scope)
        total += factor.costs.transpose(by_rank).reshape([sizes[v] if v in has else 1 for v in dims])
    return scope, total


def min_degree_order(scopes: Iterable[tuple[int, ...]], sizes: Sequence[int]) -> list[int]:
    """Variables in an order in which tables stay small: always the one whose elimination makes the smallest."""
    beside: dict[int, set[int]] = {variable: set() for variable in range(len(sizes))}
    for scope in scopes:
        for variable in scope:
            beside[variable].update(scope)
    for variable, others in beside.items():
        others.discard(variable)

    def cells(variable: int) -> int:
        return prod(sizes[other] for other in beside[variable]) * sizes[variable]

    queue = [(cells(variable), variable) for variable in beside]
    heapq.heapify(queue)
    latest = {variable: count for count, variable in queue}
    order: list[int] = []
    while queue:
        count, variable = heapq.heappop(queue)
        if variable not in beside or latest[variable] != count:
            continue
        order.append(variable)
        others = beside.pop(variable)
        for other in others:
            beside[other] |= others
            beside[other] -= {variable, other}
        for other in others:
            latest[other] = cells(other)
            heapq.heappush(queue, (latest[other], other))
    return order


def most_cells(scopes: Iterable[tuple[int, ...]], sizes: Sequence[int], order: Sequence[int]) -> float:
    """Cells of the largest table that an order makes."""
    rank = {variable: at for at, variable in enumerate(order)}
    using: dict[int, list[tuple[int, ...]]] = defaultdict(list)
    for scope in scopes:
        if scope:
            using[min(scope, key=rank.__getitem__)].append(scope)
    most = 1.0
    for variable in order:
        scope = tuple({v for found in using.pop(variable, []) for v in found if v != variable})
        most = max(most, float(prod(sizes[v] for v in scope)) * sizes[variable])
        if scope:
            using[min(scope, key=rank.__getitem__)].append(scope)
    return most
