"""Pairwise covering: few combinations in which every two values of any two factors meet."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

Pair = tuple[tuple[str, Any], tuple[str, Any]]
"""Two (factor, value), the factors in the order in which they are given."""


def pairs_of(factors: Mapping[str, Sequence[Any]]) -> list[Pair]:
    """All pairs of values of different factors."""
    return [
        ((one, a), (two, b))
        for one, two in itertools.combinations(factors, 2)
        for a, b in itertools.product(factors[one], factors[two])
    ]


def covering(factors: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Combinations that cover all pairs; the same for the same factors.

    Greedy: each combination starts from the first pair that is left and takes, factor by factor, the value that
    covers most of the others.
    """
    left = dict.fromkeys(pairs_of(factors))
    chosen: list[dict[str, Any]] = []
    while left:
        combination = dict(next(iter(left)))
        for factor in (f for f in factors if f not in combination):
            combination[factor] = max(factors[factor], key=lambda value: _gain(left, combination, factor, value))
        combination = {factor: combination[factor] for factor in factors}
        for pair in itertools.combinations(combination.items(), 2):
            left.pop(pair, None)
        chosen.append(combination)
    return chosen


def _gain(left: Mapping[Pair, None], combination: Mapping[str, Any], factor: str, value: Any) -> int:
    """How many pairs that are left a further value would cover."""
    new = (factor, value)
    return sum((other, new) in left or (new, other) in left for other in combination.items())
