"""What a node computes, in indices whose lengths are fixed or multiples of the number of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from autodist.graph._graph_def import data_inputs
from autodist.graph.layouts._base import Cut, Dim, Multiple
from autodist.graph.layouts._shapes import Inference, StepShapes, dim_of
from autodist.graph.operators import Access, Affine, Expression, Lengths, Reducer, Signature, expression_of

__all__ = ["Along", "Meaning", "Place", "meaning_of"]


@dataclass(frozen=True)
class Place:
    """A place along a dim: indices, each with the number of elements that its values are apart.

    Attributes:
        terms: The indices, the fastest first.
        length: Of the dim.

    """

    terms: tuple[tuple[str, Dim], ...]
    length: Dim


@dataclass(frozen=True)
class Along:
    """The index that a node is cut along.

    Attributes:
        index: Its name.
        outer: How often the batch follows upon itself in its values.
        inner: How many of its values belong to a row, side by side.

    """

    index: str
    outer: int
    inner: int


Dims: TypeAlias = "tuple[Place | None, ...]"
"""By dim, where the elements are; None where any may be needed."""


@dataclass(frozen=True)
class Meaning:
    """What a node computes.

    Attributes:
        sizes: By index, how many values it has.
        inputs: By input, its dims; None for what every replica takes as it is.
        outputs: By output, its dims; None for what is the kernel's own.
        lengths: By input that says how large the result is, the places that its entries are the lengths of.
        reduced: The indices that are summed over, or reduced in another way.
        joined: Those along which elements meet.

    """

    sizes: Mapping[str, Dim]
    inputs: tuple[Dims | None, ...]
    outputs: tuple[Dims | None, ...]
    lengths: Mapping[int, tuple[Affine, ...]]
    reduced: Mapping[str, Reducer]
    joined: frozenset[str]

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

    def cut(self, dims: Dims, along: Along) -> Cut | None:
        """How a tensor is cut if the node is; None if it is not cut, or can't be."""
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
    """What a node computes; None if nothing is said of it, or if it is another thing for another number of examples."""
    signatures = [_signature(node, case) for case in shapes.cases]
    if None in signatures:
        return None
    found = [expression_of(signature) for signature in signatures if signature is not None]
    one, other = found[0], found[1]
    if one is None or other is None or not _are_alike(one, other):
        return None
    sizes = {name: dim_of(size, other.sizes[name]) for name, size in one.sizes.items()}
    tensors = data_inputs(node)
    joined = set(one.joined)
    try:
        inputs = tuple(
            _dims(a, b, shapes.shape(tensor), sizes, joined)
            for a, b, tensor in zip(one.inputs, other.inputs, tensors, strict=True)
        )
        outputs = tuple(
            _dims(a, b, shapes.shape(f"{node.name}:{k}"), sizes, joined)
            for k, (a, b) in enumerate(zip(one.outputs, other.outputs, strict=True))
        )
    except ValueError:
        return None
    lengths = {k: operand.dims for k, operand in enumerate(one.inputs) if isinstance(operand, Lengths)}
    return Meaning(sizes, inputs, outputs, lengths, one.reduced, frozenset(joined))


def _signature(node: Any, case: Inference) -> Signature | None:
    tensors = data_inputs(node)
    count = len(node.attr["_output_shapes"].list.shape) if "_output_shapes" in node.attr else 1
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
        and [type(operand) for operand in one.inputs] == [type(operand) for operand in other.inputs]
        and [type(access) for access in one.outputs] == [type(access) for access in other.outputs]
    )


def _dims(
    one: Any, other: Any, shape: tuple[Dim, ...] | None, sizes: Mapping[str, Dim], joined: set[str]
) -> Dims | None:
    """By dim, where the elements are; adds to the indices along which a node can't be cut.

    Raises:
        ValueError: They are elsewhere for another number of examples.

    """
    if not isinstance(one, Access):
        return None
    if shape is None or len(shape) != len(one.dims) or len(one.dims) != len(other.dims):
        raise ValueError("unknown rank")
    places = []
    for a, b, length in zip(one.dims, other.dims, shape, strict=True):
        place = _place(a, b, length, sizes)
        if place is None:
            joined.update(() if a is None else a.indices, () if b is None else b.indices)
        places.append(place)
    return tuple(places)


def _place(one: Affine | None, other: Affine | None, length: Dim, sizes: Mapping[str, Dim]) -> Place | None:
    """A place, if the values of its indices are one behind the other, and all of them are taken."""
    if one is None or other is None or one.indices != other.indices or one.offset or other.offset:
        return None
    factors = sorted(
        ((name, a, b) for (name, a), (_, b) in zip(one.terms, other.terms, strict=True)), key=lambda term: term[1:]
    )
    terms = tuple((name, dim_of(a, b)) for name, a, b in factors)
    return Place(terms, length) if _fill(terms, length, sizes) else None


def _fill(terms: tuple[tuple[str, Dim], ...], length: Dim, sizes: Mapping[str, Dim]) -> bool:
    """Whether indices are the digits of the places along a dim: each place has its own values of them."""
    behind: Dim = 1
    for name, factor in terms:
        if sizes[name] == 1:
            continue
        if factor != behind:
            return False
        behind = _times(behind, sizes[name])
    return behind is not None and behind == length


def _times(one: Dim, other: Dim) -> Dim:
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    if isinstance(one, Multiple) and isinstance(other, int):
        return Multiple(one.times * other)
    return Multiple(one * other.times) if isinstance(one, int) and isinstance(other, Multiple) else None
