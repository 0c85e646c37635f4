"""Arithmetic of shapes: which entries are multiples of the number of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import prod
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, node_of, output_shape, split_tensor
from autodist.graph.batch._rows import Batch, Rows, Size, Value
from autodist.graph.operators import Passes, passes_on

__all__ = ["Sizes"]

Entries = tuple[Size, ...] | None
_MOST = 64
"""Longer vectors are no shapes."""


class Sizes:
    """The entries of vectors of whole numbers, computed when somebody asks.

    Args:
        nodes: The graph, or the body of a function.
        value: What is known of a tensor.
    """

    def __init__(self, nodes: Mapping[str, Any], value: Callable[[str], Value]) -> None:
        self._nodes = nodes
        self._value = value
        self._found: dict[str, Entries] = {}

    def of(self, tensor: str) -> Entries:
        """The entries of a vector, or the one of a scalar; None where nothing is known."""
        if tensor not in self._found:
            self._found[tensor] = None
            self._found[tensor] = self._compute(tensor)
        return self._found[tensor]

    def _compute(self, tensor: str) -> Entries:
        name, index = split_tensor(tensor)
        node = self._nodes[name]
        if node.op == "Const":
            return _of_constant(node)
        if passes_on(node.op, Passes.SAME, Passes.FORM, Passes.TYPE):
            return self.of(data_inputs(node)[index])
        rule = _RULES.get(node.op)
        return None if rule is None else rule(self, node, index)

    def inputs(self, node: Any) -> list[str]:
        """The tensors that a node is given."""
        return data_inputs(node)

    def shape_of(self, node: Any, index: int) -> Entries:
        """The entries of the shape of one of a node's inputs."""
        tensor = data_inputs(node)[index]
        shape = output_shape(self._nodes[node_of(tensor)], split_tensor(tensor)[1])
        if shape is None:
            return None
        rows, open_dims = self._value(tensor), [d for d, size in enumerate(shape) if size is None]
        entries: list[Size] = list(shape)
        if isinstance(rows, Rows) and rows.dim in open_dims and not rows.selected:
            times = None if rows.outer is None or rows.inner is None else rows.outer * rows.inner
            entries[rows.dim] = None if times is None else Batch(Fraction(times))
        return tuple(entries)


def _of_constant(node: Any) -> Entries:
    dims = node.attr["value"].tensor.tensor_shape.dim
    if prod(dim.size for dim in dims) > _MOST:
        return None
    value = constant_value(node)
    return tuple(int(v) for v in value.reshape(-1)) if value.dtype.kind in "iu" else None


def _shape(sizes: Sizes, node: Any, index: int) -> Entries:
    return sizes.shape_of(node, index)


def _size(sizes: Sizes, node: Any, index: int) -> Entries:
    return _product_of(sizes.shape_of(node, 0))


def _product_of(entries: Entries) -> Entries:
    if entries is None or None in entries:
        return None
    varying = [e for e in entries if isinstance(e, Batch)]
    fixed = prod(e for e in entries if isinstance(e, int))
    if len(varying) > 1:
        return None
    return (Batch(varying[0].times * fixed),) if varying else (fixed,)


def _side_by_side(sizes: Sizes, node: Any, index: int) -> Entries:
    tensors = sizes.inputs(node)
    parts = [sizes.of(t) for t in (tensors[:-1] if node.op == "ConcatV2" else tensors)]
    if any(part is None for part in parts):
        lengths = [1 if node.op == "Pack" else None if part is None else len(part) for part in parts]
        if None in lengths:
            return None
        parts = [(None,) if part is None else part for part in parts]
    found = tuple(entry for part in parts for entry in part or ())
    return found if len(found) <= _MOST else None


def _slice(sizes: Sizes, node: Any, index: int) -> Entries:
    source, *bounds = (sizes.of(t) for t in sizes.inputs(node))
    numbers = [b[0] for b in bounds if b is not None and len(b) == 1 and isinstance(b[0], int)]
    if source is None or len(numbers) < len(bounds):
        return None
    if node.op == "Slice":
        begin, size = numbers
        return source[begin:] if size == -1 else source[begin : begin + size]
    if node.attr["new_axis_mask"].i or node.attr["ellipsis_mask"].i:
        return None
    begin, end, stride = numbers
    if node.attr["shrink_axis_mask"].i:
        return source[begin : begin + 1] if begin != -1 else source[-1:]
    first, last = node.attr["begin_mask"].i, node.attr["end_mask"].i
    return source[slice(None if first else begin, None if last else end, stride)]


def _gather(sizes: Sizes, node: Any, index: int) -> Entries:
    tensors = sizes.inputs(node)
    source, places = sizes.of(tensors[0]), sizes.of(tensors[1])
    if source is None or places is None:
        return None
    return tuple(source[p] if isinstance(p, int) and -len(source) <= p < len(source) else None for p in places)


def _range(sizes: Sizes, node: Any, index: int) -> Entries:
    bounds = [sizes.of(tensor) for tensor in sizes.inputs(node)]
    numbers = [b[0] for b in bounds if b is not None and len(b) == 1 and isinstance(b[0], int)]
    return (
        tuple(range(*numbers)) if len(numbers) == 3 and numbers[2] and abs(numbers[1] - numbers[0]) <= _MOST else None
    )


def _prod(sizes: Sizes, node: Any, index: int) -> Entries:
    return _product_of(sizes.of(sizes.inputs(node)[0]))


def _arithmetic(combine: Callable[[Size, Size], Size]) -> Callable[[Sizes, Any, int], Entries]:
    def rule(sizes: Sizes, node: Any, index: int) -> Entries:
        one, other = (sizes.of(t) for t in sizes.inputs(node)[:2])
        if one is None or other is None or (len(one) != len(other) and 1 not in (len(one), len(other))):
            return None
        length = max(len(one), len(other))
        pairs = zip(one * (length // len(one)), other * (length // len(other)), strict=True)
        return tuple(None if a is None or b is None else combine(a, b) for a, b in pairs)

    return rule


def _multiply(one: Size, other: Size) -> Size:
    if isinstance(one, Batch) and isinstance(other, Batch):
        return None
    if isinstance(one, Batch) or isinstance(other, Batch):
        batch, by = (one, other) if isinstance(one, Batch) else (other, one)
        return Batch(batch.times * by) if isinstance(batch, Batch) and isinstance(by, int) else None
    return one * other if one is not None and other is not None else None


def _divide(one: Size, other: Size) -> Size:
    if not isinstance(other, int) or other == 0:
        return None
    if isinstance(one, Batch):
        return Batch(one.times / other) if (one.times / other).denominator == 1 else None
    return None if one is None else one // other


def _add(one: Size, other: Size) -> Size:
    if isinstance(one, Batch) and isinstance(other, Batch):
        return Batch(one.times + other.times)
    return one + other if isinstance(one, int) and isinstance(other, int) else None


def _subtract(one: Size, other: Size) -> Size:
    if isinstance(one, Batch) and isinstance(other, Batch):
        return Batch(one.times - other.times)
    return one - other if isinstance(one, int) and isinstance(other, int) else None


def _greater(one: Size, other: Size) -> Size:
    return max(one, other) if isinstance(one, int) and isinstance(other, int) else one if other in (0, 1) else None


def _largest(sizes: Sizes, node: Any, index: int) -> Entries:
    """The largest of several numbers, which is known only if all of them are equal."""
    entries = sizes.of(sizes.inputs(node)[0])
    return entries[:1] if entries and len(set(entries)) == 1 else None


def _at_least(one: Size, other: Size) -> Size:
    """Whether one number is at least another, as 0 or 1."""
    return int(one >= other) if isinstance(one, int) and isinstance(other, int) else None


_RULES: dict[str, Callable[[Sizes, Any, int], Entries]] = {
    "Shape": _shape,
    "ShapeN": _shape,
    "Size": _size,
    "Pack": _side_by_side,
    "ConcatV2": _side_by_side,
    "Slice": _slice,
    "StridedSlice": _slice,
    "GatherV2": _gather,
    "Range": _range,
    "Prod": _prod,
    "Mul": _arithmetic(_multiply),
    "FloorDiv": _arithmetic(_divide),
    "AddV2": _arithmetic(_add),
    "Sub": _arithmetic(_subtract),
    "Maximum": _arithmetic(_greater),
    "GreaterEqual": _arithmetic(_at_least),
    "Max": _largest,
}
