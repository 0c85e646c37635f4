"""Those of a test's values, or of all combinations of some factors, that every run of the tests takes."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable
from typing import Any

import pytest


def slow_but(quick: Container[Any], values: Iterable[Any]) -> list[Any]:
    """The values of a test's argument, or tuples of several arguments' values, of which all but the quick are slow."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=[] if value in quick else pytest.mark.slow
        )
        for value in values
    ]


def combinations(**factors: Iterable[Any]) -> Any:
    """A mark that parametrizes a test by all combinations; quick are as few as have each value of each factor.

    Args:
        factors: By the name of an argument, its values; what `pytest.param` makes has a name of its own.
    """
    options = [[value if _is_named(value) else pytest.param(value) for value in values] for values in factors.values()]
    longest = max(map(len, options))
    quick = {tuple(k % len(values) for values in options) for k in range(longest)}
    return pytest.mark.parametrize(
        tuple(factors),
        [
            _joined([values[k] for values, k in zip(options, numbers, strict=True)], numbers in quick)
            for numbers in itertools.product(*(range(len(values)) for values in options))
        ],
    )


def _is_named(value: Any) -> bool:
    return isinstance(value, type(pytest.param()))


def _joined(parts: list[Any], is_quick: bool) -> Any:
    names = [part.id if part.id is not None else str(part.values[0]) for part in parts]
    marks = [] if is_quick else [pytest.mark.slow]
    return pytest.param(*(part.values[0] for part in parts), marks=marks, id="-".join(names))
