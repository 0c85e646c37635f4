"""Arithmetic of shapes: which entries are multiples of the number of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, split_tensor, tensor_shape
from autodist.graph.batch._rows import Batch, Kind, Rows, Size, Value
from autodist.graph.operators import LONGEST, Passes, is_kind, meaning, passes_on
from autodist.graph.operators import Kind as OperatorKind

Entries = tuple[Size, ...] | None


class EntriesOf:
    """The entries of vectors of whole numbers, computed on demand.

    Args:
        nodes: The graph, or the body of a function.
        shape_of: Gives the entries of a tensor's shape.
    """

    def __init__(self, nodes: Mapping[str, Any], shape_of: Callable[[str], Entries]) -> None:
        self._nodes = nodes
        self.shape_of = shape_of
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
        numbers = meaning(node.op).numbers
        return None if numbers is None else numbers(_Inputs(self, node.attr, data_inputs(node)), index)


class Sizes(EntriesOf):
    """The entries of vectors of whole numbers, which may be multiples of the number of examples.

    Args:
        nodes: The graph, or the body of a function.
        value: Gives the facts about a tensor.
    """

    def __init__(self, nodes: Mapping[str, Any], value: Callable[[str], Value]) -> None:
        super().__init__(nodes, self._shape_of)
        self._value = value

    def is_of_batch(self, tensor: str) -> bool:
        """Whether numbers are computed from how many examples there are, not from how many of them data select."""
        stack, passed = [split_tensor(tensor)[0]], set()
        while stack:
            name = stack.pop()
            if name in passed:
                continue
            passed.add(name)
            given = data_inputs(self._nodes[name])
            counted = [rows for t in given if isinstance(rows := self._value(t), Rows)]
            if any(rows.selection != "" or None in (rows.outer, rows.inner) for rows in counted):
                return False
            sources = [split_tensor(t)[0] for t in given if self._value(t) is Kind.SIZE]
            if not sources and not counted:
                return False
            stack.extend(sources)
        return True

    def selection_counted(self, tensor: str) -> str | None:
        """The selection whose rows a number, or an entry of a shape, counts; None if it is computed or not known."""
        stack, found = [split_tensor(tensor)[0]], set[str | None]()
        while stack:
            node = self._nodes[stack.pop()]
            given = data_inputs(node)
            counted = [rows for t in given if isinstance(rows := self._value(t), Rows)]
            is_computed = not counted and is_kind(node.op, OperatorKind.ELEMENTWISE) and not passes_on(node.op)
            if is_computed or any(rows.outer != 1 or rows.inner != 1 for rows in counted):
                return None
            found.update(rows.selection for rows in counted)
            stack.extend(split_tensor(t)[0] for t in given if self._value(t) is Kind.SIZE)
        return found.pop() if len(found) == 1 else None

    def _shape_of(self, tensor: str) -> Entries:
        shape = tensor_shape(self._nodes, tensor)
        if shape is None:
            return None
        rows, open_dims = self._value(tensor), [d for d, size in enumerate(shape) if size is None]
        entries: list[Size] = list(shape)
        if isinstance(rows, Rows) and rows.dim in open_dims and not rows.selected:
            times = None if rows.outer is None or rows.inner is None else rows.outer * rows.inner
            entries[rows.dim] = None if times is None else Batch(Fraction(times))
        return tuple(entries)


@dataclass(frozen=True)
class _Inputs:
    sizes: EntriesOf
    attributes: Any
    tensors: list[str]

    @property
    def count(self) -> int:
        return len(self.tensors)

    def entries(self, position: int) -> Entries:
        return self.sizes.of(self.tensors[position])

    def shape(self, position: int) -> Entries:
        return self.sizes.shape_of(self.tensors[position])


def _of_constant(node: Any) -> Entries:
    dims = node.attr["value"].tensor.tensor_shape.dim
    if prod(dim.size for dim in dims) > LONGEST:
        return None
    value = constant_value(node)
    return tuple(int(v) for v in value.reshape(-1)) if value.dtype.kind in "iu" else None
