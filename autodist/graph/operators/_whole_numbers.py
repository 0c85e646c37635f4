"""Results of operators on short vectors of whole numbers, such as shapes, entry by entry.

An entry is a whole number; one of which something is known (that it is a multiple of the number of examples), which
computes as Python's numbers do and gives None where that says nothing; or None, where nothing is known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

LONGEST = 64
"""Vectors with more entries than this are not taken for shapes."""

Numbers: TypeAlias = "tuple[Any, ...] | None"


class NumberInputs(Protocol):
    """A node with the known entries of its input vectors."""

    @property
    def attributes(self) -> Any:
        """The attributes of the NodeDef."""

    @property
    def count(self) -> int:
        """How many inputs there are."""

    def entries(self, position: int) -> Numbers:
        """The entries of an input, or its one if it is a scalar; None where nothing is known."""

    def shape(self, position: int) -> Numbers:
        """The entries of the shape of an input."""


def lengths(given: NumberInputs, index: int) -> Numbers:
    """``Shape``, and ``ShapeN`` of each input."""
    return given.shape(index)


def counted(given: NumberInputs, index: int) -> Numbers:
    """``Size``."""
    return _product(given.shape(0))


def multiplied(given: NumberInputs, index: int) -> Numbers:
    """``Prod`` of a vector."""
    return _product(given.entries(0))


def _product(entries: Numbers) -> Numbers:
    if entries is None or None in entries:
        return None
    found = functools.reduce(lambda one, other: None if one is None else one * other, entries, 1)
    return None if found is None else (found,)


def side_by_side(given: NumberInputs, index: int) -> Numbers:
    """``Pack`` of scalars."""
    parts = [given.entries(k) for k in range(given.count)]
    return _joined([(None,) if part is None else part for part in parts])


def concatenated(given: NumberInputs, index: int) -> Numbers:
    """``ConcatV2``."""
    parts = [given.entries(k) for k in range(given.count - 1)]
    return None if None in parts else _joined([part or () for part in parts])


def _joined(parts: Sequence[tuple[Any, ...]]) -> Numbers:
    found = tuple(entry for part in parts for entry in part)
    return found if len(found) <= LONGEST else None


def _known(given: NumberInputs, first: int) -> list[int] | None:
    """The one entry of each input from a position on, if all of them are known."""
    bounds = [given.entries(k) for k in range(first, given.count)]
    found = [b[0] for b in bounds if b is not None and len(b) == 1 and isinstance(b[0], int)]
    return found if len(found) == len(bounds) else None


def sliced(given: NumberInputs, index: int) -> Numbers:
    """``Slice``."""
    source, bounds = given.entries(0), _known(given, 1)
    if source is None or bounds is None:
        return None
    begin, size = bounds
    return source[begin:] if size == -1 else source[begin : begin + size]


def strided_numbers(given: NumberInputs, index: int) -> Numbers:
    """``StridedSlice``."""
    source, bounds, attributes = given.entries(0), _known(given, 1), given.attributes
    if source is None or bounds is None or attributes["new_axis_mask"].i or attributes["ellipsis_mask"].i:
        return None
    begin, end, stride = bounds
    if attributes["shrink_axis_mask"].i:
        return source[begin : begin + 1] if begin != -1 else source[-1:]
    first, last = attributes["begin_mask"].i, attributes["end_mask"].i
    return source[slice(None if first else begin, None if last else end, stride)]


def looked_up(given: NumberInputs, index: int) -> Numbers:
    """``GatherV2``."""
    source, places = given.entries(0), given.entries(1)
    if source is None or places is None:
        return None
    return tuple(source[p] if isinstance(p, int) and -len(source) <= p < len(source) else None for p in places)


def counts(given: NumberInputs, index: int) -> Numbers:
    """``Range``."""
    numbers = _known(given, 0)
    if numbers is None or len(numbers) != 3 or not numbers[2] or abs(numbers[1] - numbers[0]) > LONGEST:
        return None
    return tuple(range(*numbers))


def largest(given: NumberInputs, index: int) -> Numbers:
    """``Max``: the largest of several numbers is known only if all of them are equal."""
    entries = given.entries(0)
    return entries[:1] if entries and len(set(entries)) == 1 else None


def entry_by_entry(combine: Callable[[Any, Any], Any]) -> Callable[[NumberInputs, int], Numbers]:
    """Combine two vectors of one length, or a vector and a scalar, entry by entry."""

    def numbers(given: NumberInputs, index: int) -> Numbers:
        one, other = given.entries(0), given.entries(1)
        if not one or not other or (len(one) != len(other) and 1 not in (len(one), len(other))):
            return None
        length = max(len(one), len(other))
        pairs = zip(one * (length // len(one)), other * (length // len(other)), strict=True)
        return tuple(None if a is None or b is None else combine(a, b) for a, b in pairs)

    return numbers


def quotient(one: Any, other: Any) -> Any:
    """``FloorDiv``."""
    return None if other == 0 else one // other


def maximum(one: Any, other: Any) -> Any:
    """``Maximum``, given that there is at least one example."""
    return max(one, other) if isinstance(one, int) and isinstance(other, int) else one if other in (0, 1) else None


def at_least(one: Any, other: Any) -> Any:
    """``GreaterEqual``, as 0 or 1."""
    return int(one >= other) if isinstance(one, int) and isinstance(other, int) else None
