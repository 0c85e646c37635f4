"""Ranges of the batch: batches one after the other, and taken apart again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from autodist.graph._graph_def import data_inputs
from autodist.graph.layouts._base import WHOLE, Cut, Multiple
from autodist.graph.layouts._way import Way, entries_at
from autodist.graph.operators import RangeUse


class Lengths(Protocol):
    """Tells lengths of tensors."""

    def outputs_of(self, node: Any) -> int:
        """How many outputs a node has."""

    def length(self, tensor: str, dim: int) -> int | None:
        """How many times the number of examples a dim is; None if it is not a multiple."""

    def numbers(self, tensor: str) -> tuple[Any, ...] | None:
        """The entries of a vector; None if one is not known."""

    def rank(self, tensor: str) -> int:
        """Number of dims."""

    def keeps_other_dims(self, one: str, other: str, dim: int) -> bool:
        """Whether two tensors differ along one dim only."""


_Rule: TypeAlias = "Callable[[Lengths, Any, int, Cut], Way | None]"


def _whole_batches(ways: Lengths, tensor: str, cut: Cut) -> Cut | None:
    """How another tensor is cut that has whole batches along the same dim."""
    times = ways.length(tensor, cut.dim)
    return None if times is None or times % cut.inner else Cut(cut.dim, times // cut.inner, cut.inner)


def _concatenated(ways: Lengths, node: Any, position: int, cut: Cut) -> Way | None:
    """``ConcatV2`` along the dim of the batch."""
    *tensors, axis = data_inputs(node)
    at = ways.numbers(axis)
    if at is None or at[0] % ways.rank(node.name) != cut.dim:
        return None
    parts = [_whole_batches(ways, tensor, cut) for tensor in tensors]
    made = _whole_batches(ways, node.name, cut)
    if made is None or None in parts:
        return None
    return Way((*(part for part in parts if part is not None), WHOLE), (made,))


def _split(ways: Lengths, node: Any, position: int, cut: Cut) -> Way | None:
    """``Split`` into equal parts of whole batches."""
    axis, tensor = data_inputs(node)
    at = ways.numbers(axis)
    if at is None or at[0] % ways.rank(tensor) != cut.dim:
        return None
    made = [_whole_batches(ways, f"{node.name}:{k}", cut) for k in range(ways.outputs_of(node))]
    return None if None in made else Way((WHOLE, cut), tuple(part for part in made if part is not None))


def _sliced(ways: Lengths, node: Any, position: int, cut: Cut) -> Way | None:
    """``Slice`` of whole batches."""
    tensor, begin, size = data_inputs(node)
    first, lengths, made = ways.numbers(begin), ways.numbers(size), _whole_batches(ways, node.name, cut)
    if first is None or lengths is None or made is None or not ways.keeps_other_dims(tensor, node.name, cut.dim):
        return None
    if not _is_batch(first[cut.dim], cut):
        return None
    return Way((cut, WHOLE, WHOLE), (made,), ((1, entries_at(first, cut.dim)), (2, entries_at(lengths, cut.dim))))


def _is_batch(place: Any, cut: Cut) -> bool:
    return place == 0 or (isinstance(place, Multiple) and place.times % cut.inner == 0)


def _strided(ways: Lengths, node: Any, position: int, cut: Cut) -> Way | None:
    """``StridedSlice`` of whole batches along the dim of the batch, and of nothing else."""
    tensor, *bounds = data_inputs(node)
    numbers = [ways.numbers(bound) for bound in bounds]
    made = _whole_batches(ways, node.name, cut)
    if made is None or None in numbers or not _is_plain(node) or not ways.keeps_other_dims(tensor, node.name, cut.dim):
        return None
    begin, end, strides = (entries or () for entries in numbers)
    if any(stride != 1 for stride in strides) or len(begin) <= cut.dim:
        return None
    is_first = node.attr["begin_mask"].i >> cut.dim & 1
    if not is_first and not _is_batch(begin[cut.dim], cut):
        return None
    return Way((cut, WHOLE, WHOLE, WHOLE), (made,), ((1, entries_at(begin, cut.dim)), (2, entries_at(end, cut.dim))))


def _is_plain(node: Any) -> bool:
    return not any(node.attr[f"{name}_mask"].i for name in ("new_axis", "ellipsis", "shrink_axis"))


RANGES: Mapping[RangeUse | None, _Rule] = {
    RangeUse.JOINS: _concatenated,
    RangeUse.SPLITS: _split,
    RangeUse.SLICES: _sliced,
    RangeUse.STRIDES: _strided,
}
"""By how an operator takes ranges, the way that an input which is cut along the batch suggests."""
