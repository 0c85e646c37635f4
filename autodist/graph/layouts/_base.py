"""How the replicas of a step share one tensor: cut along the batch or another dim, whole, or as parts of a sum."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from autodist.graph.operators import Reducer


@dataclass(frozen=True)
class Multiple:
    """A length that is this many times the number of examples."""

    times: int


@dataclass(frozen=True)
class Rows:
    """This many times the number of examples that a replica has."""

    times: int


@dataclass(frozen=True)
class Part:
    """The length of one of the parts of a dim of this many elements, see :func:`bounds_of_part`."""

    whole: int


Dim: TypeAlias = "int | Multiple | None"
"""Length of a dim; None where it is neither fixed nor a multiple of the number of examples."""

Shape: TypeAlias = "tuple[Dim, ...] | None"


@dataclass(frozen=True)
class Whole:
    """Every worker has all of it, the same."""


@dataclass(frozen=True)
class Cut:
    """Each replica has the elements of its own rows of the batch.

    Along the dim, element ``(o * B + b) * inner + i`` belongs to row b of B.

    Attributes:
        dim: The dim that is cut.
        outer: How often the batch repeats.
        inner: How many elements of a row lie side by side.
    """

    dim: int
    outer: int = 1
    inner: int = 1


@dataclass(frozen=True)
class Partial:
    """Each replica has a tensor of the full shape; put together element by element they are the value."""

    reducer: Reducer = Reducer.SUM


@dataclass(frozen=True)
class Tile:
    """Each replica has one of the parts of a dim whose length is fixed, one after the other in their order.

    They are equal, or the first ones have one element more: see :func:`bounds_of_part`.

    This layout starts at tiled variables: what is computed from them is computed where their parts are.

    Attributes:
        dim: The dim that is cut.
        outer: Into how many stretches the dim falls, of each of which a replica has a part: as of the pixels of several
            images that are strung together. Then all parts are equal.
    """

    dim: int
    outer: int = 1


@dataclass(frozen=True)
class Stretch:
    """Each replica has the places of a dim of fixed length that its work needs: its own part, and some around it.

    Work is never shared in this way, only given: windows that move over an image need the rows around a part.

    Attributes:
        dim: The dim.
        length: Its length.
        bounds: By replica, the first place and the one after the last. Places before the first of the dim, and behind
            its last, are those at its other end.
    """

    dim: int
    length: int
    bounds: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Own:
    """Each replica has what belongs to its rows: a list of tensors of which no other replica can have a part."""


Layout: TypeAlias = Whole | Cut | Tile | Stretch | Partial | Own

WHOLE = Whole()
OWN = Own()


def bounds_of_part(length: int, parts: int, part: int) -> tuple[int, int]:
    """Where a part of a dim begins and ends; those of variables are the same.

    Example:
        >>> [bounds_of_part(7, 3, part) for part in range(3)]
        [(0, 3), (3, 5), (5, 7)]
    """
    each, longer = divmod(length, parts)
    begin = part * each + min(part, longer)
    return begin, begin + each + (part < longer)


def factor_of(shape: Shape) -> int:
    """How many elements a tensor has, besides the numbers of examples in it.

    Example:
        >>> factor_of((Multiple(2), 3, Multiple(1)))
        6
    """
    return prod(size.times if isinstance(size, Multiple) else size or 1 for size in shape or ())


def is_all_to_all(source: Layout, target: Layout) -> bool:
    """Whether replicas have parts along one dim and need them along another, so that each lacks some of every other.

    Example:
        >>> is_all_to_all(Cut(0), Tile(1)), is_all_to_all(Tile(1), Tile(1, outer=2))
        (True, False)
    """
    if not isinstance(source, Cut | Tile) or not isinstance(target, Cut | Tile):
        return False
    return source.dim != target.dim and source.outer == target.outer == 1


def is_scattered(layout: Layout) -> bool:
    """Whether each replica has one contiguous part of the tensor, so that no replica has to sum all of it."""
    if isinstance(layout, Tile):
        return layout.outer == 1
    return isinstance(layout, Cut) and layout.dim == 0 and layout.outer == 1
