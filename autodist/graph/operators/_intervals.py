"""Interval analysis: which parts of the inputs a part of the result needs (Tofu, section 4.2).

The ranges are half open, and whole numbers before the affine map is applied, so that strides are exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from autodist.graph.operators._base import WHOLE, Access, Affine, Expression, Lengths, Ranges
from autodist.graph.operators._kinds import Reducer

Region: TypeAlias = tuple[tuple[int, int] | None, ...]
"""By dim, the first place and the one after the last; None for the whole dim."""


@dataclass(frozen=True)
class Cut:
    """An index along which an operator may be cut.

    Attributes:
        index: Its name.
        reducer: How the tiles' results make the whole; None where each tile has a part of every result.
    """

    index: str
    reducer: Reducer | None = None


@dataclass(frozen=True)
class Tile:
    """A part of an operator's work.

    Attributes:
        ranges: By index, which of its values.
        inputs: By input, which part of it is given: that which is needed along the dims that the cut depends on, all
            of the other dims. None for all of it, or what is no tensor of data.
        outputs: By output, which part of it is made; None for what is the kernel's own.
    """

    ranges: Ranges
    inputs: tuple[Region | None, ...]
    outputs: tuple[Region | None, ...]


def cuts(expression: Expression) -> tuple[Cut, ...]:
    """The indices along which an operator may be cut, so that tiles need contiguous parts of tensors and make such.

    Example:
        >>> product = Expression({"m": 4, "n": 6, "k": 8}, (Access.by("m", "n"),),
        ...     (Access.by("m", "k"), Access.by("k", "n")), {"k": Reducer.SUM})
        >>> [(cut.index, cut.reducer) for cut in cuts(product)]
        [('m', None), ('n', None), ('k', <Reducer.SUM: 'sum'>)]
    """
    return tuple(Cut(name, expression.reduced.get(name)) for name in expression.sizes if _may_cut(expression, name))


def _may_cut(expression: Expression, index: str) -> bool:
    if index in expression.joined or expression.sizes[index] == 1:
        return False
    if any(not _is_contiguous(place, expression, index) for place in _places(expression, index)):
        return False
    if index in expression.reduced:
        return True
    return all(_is_outermost(access, expression, index) for access in expression.outputs if access is not None)


def _places(expression: Expression, index: str) -> Iterator[Affine]:
    for operand in expression.inputs:
        places = operand.dims if isinstance(operand, Access | Lengths) else ()
        yield from (place for place in places if place is not None and place.factor(index))


def _is_outermost(access: Access, expression: Expression, index: str) -> bool:
    """Whether an output is cut into parts one after another, along one dim, by the values of an index."""
    dims = access.dims_of(index)
    if len(dims) != 1:
        return False
    place = access.dims[dims[0]]
    assert place is not None
    inner = [(name, factor) for name, factor in place.terms if name != index and expression.sizes[name] != 1]
    sizes = [expression.sizes[name] for name, _ in inner]
    if None in sizes:
        return False
    return place.factor(index) == 1 + sum(f * (s - 1) for (_, f), s in zip(inner, sizes, strict=True) if s is not None)


def _is_contiguous(place: Affine, expression: Expression, index: str) -> bool:
    """Whether a range of an index takes one contiguous part of a dim.

    Indices that are summed or joined form a window that moves along; what lies between its places is taken as well, and
    harmless.
    """
    window = expression.joined | expression.reduced.keys()
    inner = [abs(f) for name, f in place.terms if name != index and expression.sizes[name] != 1 and name not in window]
    return all(factor < abs(place.factor(index)) for factor in inner)


def span(place: Affine, ranges: Ranges) -> tuple[int, int]:
    """The first place that is reached and the one after the last; they lie outside the tensor where there is padding.

    Example:
        >>> span(Affine.of("h", 2) + Affine.of("i") - 1, {"h": (0, 4), "i": (0, 3)})
        (-1, 8)
    """
    low = high = place.offset
    for name, factor in place.terms:
        first, last = factor * ranges[name][0], factor * (ranges[name][1] - 1)
        low, high = low + min(first, last), high + max(first, last)
    return low, high + 1


def length(place: Affine, ranges: Ranges) -> int:
    """How many places there are."""
    first, last = span(place, ranges)
    return last - first


def is_cut(place: Affine, expression: Expression, ranges: Ranges) -> bool:
    """Whether the places of a dim depend on an index of which a tile has some values only."""
    return any(ranges[name] != (0, expression.sizes[name] or 1) for name, _ in place.terms)


def region(access: Access, shape: tuple[int, ...], expression: Expression, ranges: Ranges) -> Region:
    """The part of a tensor that a tile is given; what lies beyond the tensor is padding, and left out.

    Along a dim that goes :attr:`Affine.around` it stays: these are places at the other end.
    """
    return tuple(
        _reached(place, size, ranges) if place is not None and is_cut(place, expression, ranges) else None
        for place, size in zip(access.dims, shape, strict=True)
    )


def _reached(place: Affine, size: int, ranges: Ranges) -> tuple[int, int]:
    found = span(place, ranges)
    return found if place.around else _clipped(found, size)


def _clipped(places: tuple[int, int], size: int) -> tuple[int, int]:
    low, high = places
    return max(0, min(low, size)), max(0, min(high, size))


def tiles(
    expression: Expression, inputs: tuple[tuple[int, ...], ...], index: str, bounds: tuple[int, ...]
) -> tuple[Tile, ...]:
    """The tiles of an operator that is cut along one index.

    Args:
        expression: With sizes that are all known.
        inputs: The shape of each input.
        index: One of :func:`cuts`.
        bounds: Where each tile begins, and where the last ends.

    Example:
        >>> convolution = Expression({"x": 5, "i": 3}, (Access.by("x"),),
        ...     (Access((Affine.of("x", 2) + Affine.of("i") - 1,)), Access.by("i")), {"i": Reducer.SUM})
        >>> [tile.inputs[0] for tile in tiles(convolution, ((10,), (3,)), "x", (0, 2, 5))]
        [((0, 4),), ((3, 10),)]
    """
    whole = {name: (0, _known(size)) for name, size in expression.sizes.items()}
    found = []
    for first, last in itertools.pairwise(bounds):
        ranges = MappingProxyType({**whole, index: (first, last)})
        taken = tuple(
            None if operand is WHOLE or isinstance(operand, Lengths) else region(operand, shape, expression, ranges)
            for operand, shape in zip(expression.inputs, inputs, strict=True)
        )
        made = tuple(None if access is None else _made(access, ranges) for access in expression.outputs)
        found.append(Tile(ranges, taken, made))
    return tuple(found)


def _made(access: Access, ranges: Ranges) -> Region:
    return tuple(None if place is None else span(place, ranges) for place in access.dims)


def _known(size: int | None) -> int:
    if size is None:
        raise ValueError("the expression has an index of unknown size, allowed: sizes that are all known")
    return size
