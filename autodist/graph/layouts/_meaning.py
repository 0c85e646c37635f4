"""The computation of a node, in indices whose lengths are fixed or multiples of the number of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np

from autodist.graph._graph_def import data_inputs, num_outputs
from autodist.graph.layouts._base import Cut, Dim, Multiple, Tile
from autodist.graph.layouts._shapes import Inference, StepShapes
from autodist.graph.operators import (
    Access,
    Affine,
    Expression,
    Lengths,
    Reducer,
    Signature,
    expression_of,
)


@dataclass(frozen=True)
class Place:
    """A place along a dim: indices, each with the number of elements that its values are apart.

    Attributes:
        terms: The indices, the fastest first.
        length: Length of the dim.
    """

    terms: tuple[tuple[str, Dim], ...]
    length: Dim


@dataclass(frozen=True)
class Along:
    """The index that a node is cut along.

    Attributes:
        index: Its name.
        outer: How often the batch repeats in its values.
        inner: How many of its values belong to a row, side by side.
    """

    index: str
    outer: int
    inner: int


@dataclass(frozen=True)
class AlongTiles:
    """The index of fixed length that a node is cut along, into parts that are as equal as they can be.

    Attributes:
        index: Its name.
        parts: How many parts, one for each replica of all workers.
        outer: Into how many stretches its values fall, of each of which a replica has a part.
        repeats: Whether parts of tensors may fall into stretches, see :class:`Tile`.
    """

    index: str
    parts: int
    outer: int = 1
    repeats: bool = False


Dims: TypeAlias = "tuple[Place | None, ...]"
"""By dim, where the elements are; None where any may be needed."""


@dataclass(frozen=True)
class Meaning:
    """The computation of a node.

    Attributes:
        sizes: By index, how many values it has.
        inputs: By input, its dims; None for one that every replica takes unchanged.
        outputs: By output, its dims; None for one that only the kernel's own gradient uses.
        lengths: By input that gives the size of the result, the places whose lengths are its entries.
        reduced: The indices that are summed over, or reduced in another way.
        joined: The indices along which elements meet, so that the node can't be cut there.
        masked: The indices of rows that an input names by number, each with the position of that input.
    """

    sizes: Mapping[str, Dim]
    inputs: tuple[Dims | None, ...]
    outputs: tuple[Dims | None, ...]
    lengths: Mapping[int, tuple[Affine, ...]]
    reduced: Mapping[str, Reducer]
    joined: frozenset[str]
    masked: Mapping[str, int]

    def along(self, dims: Dims | None, cut: Cut) -> tuple[Along, ...]:
        """The indices that a node is cut along if one of its tensors is cut like this."""
        if dims is None:
            return ()
        place = dims[cut.dim] if cut.dim < len(dims) else None
        found = []
        for index, factor in () if place is None else place.terms:
            size = self.sizes[index]
            if not isinstance(size, Multiple) or not isinstance(factor, int) or cut.inner % factor:
                continue
            inner = cut.inner // factor
            if size.times % inner:
                continue
            along = Along(index, size.times // inner, inner)
            if self.cut(dims, along) == cut:
                found.append(along)
        return tuple(found)

    def along_tiles(self, dims: Dims | None, tile: Tile, parts: int, *, repeats: bool = False) -> AlongTiles | None:
        """The index that a node is cut along if one of its tensors is tiled like this; None if there is none.

        It is the outermost one of the dim, whose parts are one after the other, or the one inside of the stretches into
        which the dim falls.
        """
        place = None if dims is None or tile.dim >= len(dims) else dims[tile.dim]
        outside = 1
        for name, _ in reversed(() if place is None else place.terms):
            size = self.sizes[name]
            if size == 1:
                continue
            along = AlongTiles(name, parts, max(1, tile.outer // outside), repeats)
            if dims is not None and self.cut(dims, along) == tile:
                return along
            if not isinstance(size, int) or outside * size > tile.outer:
                return None
            outside *= size
        return None

    def cut(self, dims: Dims, along: Along | AlongTiles) -> Cut | Tile | None:
        """How a tensor is cut if the node is; None if it is not cut, or can't be."""
        return self._tile(dims, along) if isinstance(along, AlongTiles) else self._cut(dims, along)

    def _tile(self, dims: Dims, along: AlongTiles) -> Tile | None:
        places, size = self.dims_of(dims, along.index), self.sizes[along.index]
        if len(places) != 1 or not isinstance(size, int) or size < along.parts:
            return None
        place = dims[places[0]]
        assert place is not None
        names = [name for name, _ in place.terms if self.sizes[name] != 1]
        outside = (
            [self.sizes[name] for name in names[names.index(along.index) + 1 :]] if along.index in names else [None]
        )
        if not isinstance(place.length, int) or not all(isinstance(one, int) for one in outside):
            return None
        outer = along.outer * prod(one for one in outside if isinstance(one, int))
        if outer > 1 and (not along.repeats or size % (along.outer * along.parts)):
            return None
        if size % along.parts and place.length != size:  # parts of the dim would end within values of the index
            return None
        return Tile(places[0], outer)

    def _cut(self, dims: Dims, along: Along) -> Cut | None:
        places = self.dims_of(dims, along.index)
        if len(places) != 1:
            return None
        place = dims[places[0]]
        assert place is not None
        factor = dict(place.terms)[along.index]
        if not isinstance(factor, int) or not isinstance(place.length, Multiple):
            return None
        inner = factor * along.inner
        outer, rest = divmod(place.length.times, inner)
        return Cut(places[0], outer, inner) if not rest and outer % along.outer == 0 else None

    def dims_of(self, dims: Dims, index: str) -> tuple[int, ...]:
        """The dims that an index is a place of."""
        return tuple(d for d, place in enumerate(dims) if place is not None and index in dict(place.terms))


def meaning_of(node: Any, shapes: StepShapes) -> Meaning | None:
    """The computation of a node; None if nothing is known about it, or if it differs for another number of examples."""
    signatures = [signature_of(node, case) for case in shapes.cases]
    found = [expression_of(signature) for signature in signatures]
    known = [expression for expression in found if expression is not None]
    if len(known) < len(found) or not all(_are_alike(known[0], other) for other in known[1:]):
        return None
    one = known[0]
    sizes = {name: shapes.dim([expression.sizes[name] for expression in known]) for name in one.sizes}
    joined = set(one.joined)
    places = _Places(shapes, sizes, joined)
    try:
        inputs = tuple(
            places.dims(accesses, tensor)
            for *accesses, tensor in zip(*(e.inputs for e in known), data_inputs(node), strict=True)
        )
        outputs = tuple(
            places.dims(accesses, f"{node.name}:{k}")
            for k, accesses in enumerate(zip(*(e.outputs for e in known), strict=True))
        )
    except ValueError:
        return None
    lengths = {k: operand.dims for k, operand in enumerate(one.inputs) if isinstance(operand, Lengths)}
    return Meaning(sizes, inputs, outputs, lengths, one.reduced, frozenset(joined), one.masked)


def signature_of(node: Any, case: Inference) -> Signature:
    """A node with the shapes that it has for one number of examples."""
    tensors = data_inputs(node)
    count = num_outputs(node)
    inputs = tuple(case.shape(tensor) for tensor in tensors)
    outputs = tuple(case.shape(f"{node.name}:{k}") for k in range(max(1, count)))
    return Signature(node.op, inputs, outputs, node.attr, _constants(tensors, case))


def _constants(tensors: list[str], case: Inference) -> Callable[[int], np.ndarray | None]:
    return lambda position: case.numbers(tensors[position])


def _are_alike(one: Expression, other: Expression) -> bool:
    return (
        one.sizes.keys() == other.sizes.keys()
        and one.reduced == other.reduced
        and one.joined == other.joined
        and one.masked == other.masked
        and [type(operand) for operand in one.inputs] == [type(operand) for operand in other.inputs]
        and [type(access) for access in one.outputs] == [type(access) for access in other.outputs]
    )


class _Places:
    """Finds where the elements of tensors are.

    Args:
        shapes: The shapes and small whole numbers of the step.
        sizes: By index of the node, how many values it has.
        joined: The indices along which the node can't be cut; those of dims about which nothing is known are added.
    """

    def __init__(self, shapes: StepShapes, sizes: Mapping[str, Dim], joined: set[str]) -> None:
        self._shapes = shapes
        self._sizes = sizes
        self._joined = joined

    def dims(self, accesses: Sequence[Any], tensor: str) -> Dims | None:
        """By dim of a tensor, where the elements are, given how it is read for each number of examples.

        Raises:
            ValueError: The places differ between numbers of examples.
        """
        if not isinstance(accesses[0], Access):
            return None
        shape = self._shapes.shape(tensor)
        if shape is None or any(len(access.dims) != len(shape) for access in accesses):
            raise ValueError("unknown rank")
        places = []
        for *parts, length in zip(*(access.dims for access in accesses), shape, strict=True):
            place = self._place(parts, length)
            if place is None:
                self._joined.update(*(part.indices for part in parts if part is not None))
            places.append(place)
        return tuple(places)

    def _place(self, parts: Sequence[Affine | None], length: Dim) -> Place | None:
        """A place, if the values of its indices are one after the other, and all of them are taken."""
        known = [part for part in parts if part is not None and not part.offset]
        if len(known) < len(parts) or len({part.indices for part in known}) > 1:
            return None
        factors = sorted(
            ((terms[0][0], [factor for _, factor in terms]) for terms in zip(*(p.terms for p in known), strict=True)),
            key=lambda term: term[1],
        )
        terms = tuple((name, self._shapes.dim(factor)) for name, factor in factors)
        return Place(terms, length) if self._fill(terms, length) else None

    def _fill(self, terms: tuple[tuple[str, Dim], ...], length: Dim) -> bool:
        """Whether indices are the digits of the places along a dim: each place has its own values of them."""
        behind: Dim = 1
        for name, factor in terms:
            if self._sizes[name] == 1:
                continue
            if factor != behind:
                return False
            behind = self._shapes.product(behind, self._sizes[name])
        return behind is not None and behind == length
