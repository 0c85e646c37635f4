"""Loops, branches and lists of tensors, which have no index expression: where they have the batch.

They are followed into their functions by the rules of `graph/batch`. If examples stay apart in a loop, each replica
runs it on its own rows, and so its backward pass: a result there without a dim for the batch is a gradient by something
whole, to which each replica adds its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from autodist.graph._constants import is_zero
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    VARIANT,
    called_functions,
    data_inputs,
    is_stateful,
    node_of,
    num_outputs,
    output_shape,
    tensor_dtype,
    tensor_name,
)
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.batch import Kind, Rows, Value
from autodist.graph.operators import BRANCHES, LOOPS, ListUse, is_kind, meaning
from autodist.graph.operators import Kind as OperatorKind

_MET = frozenset({Kind.MET, Kind.DATA, Kind.ROW})


class Sizes(Protocol):
    """Shapes and numbers of a step for one number of examples."""

    size: int

    def shape(self, tensor: str) -> tuple[int | None, ...] | None:
        """The shape of a tensor, as far as it is known."""

    def entries(self, tensor: str) -> tuple[Any, ...] | None:
        """The entries of a vector of whole numbers, None for each that data decide; None if nothing is known."""


def is_flow(node: Any) -> bool:
    """Whether a node is a loop, a branch, or handles lists of tensors."""
    return is_kind(node.op, OperatorKind.FLOW, OperatorKind.LIST) or _passes_lists(node)


def _passes_lists(node: Any) -> bool:
    return is_kind(node.op, OperatorKind.ELEMENTWISE) and "T" in node.attr and node.attr["T"].type == VARIANT


class Flows:
    """Follows the batch through such nodes of a step.

    Args:
        graph: The step. If it is for a fixed number of examples, the functions are for all of these.
        by_rows: Whether replicas may run such nodes on their own rows at all.
    """

    def __init__(self, graph: TrainingGraph, *, by_rows: bool = True) -> None:
        self._is_open = by_rows and graph.fixed_rows is None
        self._analysis = analysis = graph.analysis
        self._nodes = analysis.nodes
        self._flows = [name for name in analysis.order if is_flow(self._nodes[name])]
        self._bodies = FunctionBodies(analysis.graph_def)
        self._pure: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._flows)

    def followed(self, sizes: Sizes) -> dict[str, Value]:
        """By output of such nodes, where it has the batch, as far as the shapes of inputs are known.

        ``Kind.DATA`` is a tensor whose terms the replicas have, ``Kind.SIZE`` one that depends on how many rows a
        replica has, ``Kind.MET`` one that can't be computed from a replica's rows.
        """
        found: dict[str, Value] = {}
        for name in self._flows:
            node = self._nodes[name]
            values = [self._value(tensor, found, sizes) for tensor in data_inputs(node)]
            for k, value in enumerate(self._outputs(node, values)):
                found[tensor_name(name, k)] = value
        return found

    def opened(self, followed: Mapping[str, Value], sizes: Sizes) -> dict[str, tuple[int | None, ...]]:
        """The shapes of outputs for which TensorFlow does not know where the batch is."""
        found: dict[str, tuple[int | None, ...]] = {}
        for tensor, value in followed.items():
            shape = sizes.shape(tensor)
            if not isinstance(value, Rows) or not shape or tensor_dtype(self._nodes, tensor) == "variant":
                continue
            if 0 <= value.dim < len(shape) and shape[value.dim] is None:
                found[tensor] = (*shape[: value.dim], sizes.size, *shape[value.dim + 1 :])
        return found

    def inputs(self, node: Any, followed: Mapping[str, Value], sizes: Sizes) -> list[Value]:
        """Where the inputs of such a node have the batch."""
        return [self._value(tensor, followed, sizes) for tensor in data_inputs(node)]

    def _value(self, tensor: str, followed: Mapping[str, Value], sizes: Sizes) -> Value:
        tensor = tensor.removesuffix(":0")
        if tensor in followed:
            return followed[tensor]
        if tensor_dtype(self._nodes, tensor) in ("variant", "resource"):
            return None
        shape, entries = sizes.shape(tensor), sizes.entries(tensor)
        if shape is None:
            return Kind.MET
        multiples = [d for d, length in enumerate(shape) if length is not None and length and length % sizes.size == 0]
        if multiples:
            return Rows(multiples[0]) if [shape[d] for d in multiples] == [sizes.size] else Kind.MET
        if any(entry and entry > 0 and entry % sizes.size == 0 for entry in entries or ()):
            return Kind.SIZE
        return None

    def _outputs(self, node: Any, values: list[Value]) -> list[Value]:
        count = max(1, num_outputs(node))
        if all(value is None for value in values):
            return [None] * count
        refused: list[Value] = [Kind.MET] * count
        if not self._is_open or not self._is_pure(node) or not _MET.isdisjoint(values):
            return refused
        if meaning(node.op).list_use is ListUse.MAKES:
            return [Kind.SIZE]
        if _passes_lists(node):
            return values[:1] if len(set(values)) == 1 else refused
        given = [None if self._is_created(t) else v for t, v in zip(data_inputs(node), values, strict=True)]
        found, why = self._analysis.dependence.follow(node, given)
        if self._analysis.dependence.is_backward(node.name):
            if any(map(self._is_whole_gradient, data_inputs(node), values)):
                return refused
            found = [self._of_backward(node, k, value, values) for k, value in enumerate(found)]
        elif why is not None or Kind.DATA in found:  # a mean or a maximum of all examples is no sum of replicas' values
            return refused
        if any(_is_unclear(value) for value in found):
            return refused
        if node.op in LOOPS and any(map(self._is_length, data_inputs(node), values)):
            return [Kind.SIZE if value is None else value for value in found]  # it turns as often as there are rows
        return found

    def _is_length(self, tensor: str, value: Value) -> bool:
        return value is Kind.SIZE and tensor_dtype(self._nodes, tensor) != "variant"

    def _is_whole_gradient(self, tensor: str, value: Value) -> bool:
        """Whether all replicas would add the whole of a gradient to what they compute from their rows."""
        is_gradient = self._analysis.dependence.is_backward(node_of(tensor))
        return is_gradient and value is None and not (self._is_number(tensor) or is_zero(self._nodes, tensor))

    def _is_number(self, tensor: str) -> bool:
        return tensor_dtype(self._nodes, tensor).startswith(("int", "uint", "bool"))

    def _is_created(self, tensor: str) -> bool:
        return meaning(self._nodes[node_of(tensor)].op).list_use is ListUse.MAKES

    def _of_backward(self, node: Any, position: int, value: Value, values: list[Value]) -> Value:
        """An output of a backward pass that the rules can't tell: for a loop, it is like its initial value."""
        if value not in _MET:
            return value
        if node.op in BRANCHES:
            return self._of_branch(node, position)
        if node.op not in LOOPS:
            return Kind.MET
        if isinstance(values[position], Rows):
            return values[position]
        is_list = tensor_dtype(self._nodes, tensor_name(node.name, position)) == "variant"
        begins_empty = not is_list and is_zero(self._nodes, data_inputs(node)[position])
        return Kind.DATA if values[position] is None and begins_empty else Kind.MET

    def _of_branch(self, node: Any, position: int) -> Value:
        """A gradient that comes out of a branch: tracing has left the dim of the batch open, if it has one."""
        shape = output_shape(node, position)
        if shape is None or tensor_dtype(self._nodes, tensor_name(node.name, position)) == "variant":
            return Kind.MET
        if None not in shape:
            return Kind.DATA
        return Rows(shape.index(None)) if shape.count(None) == 1 else Kind.MET

    def _is_pure(self, node: Any) -> bool:
        """Whether nothing is drawn or changed inside: then it does not matter how often it runs, and on which rows."""
        return all(self._is_pure_function(function.name) for function in called_functions(node))

    def _is_pure_function(self, function: str) -> bool:
        if function not in self._pure:
            self._pure[function] = all(map(self._is_pure_node, self._bodies.nodes(function).values()))
        return self._pure[function]

    def _is_pure_node(self, node: Any) -> bool:
        if is_kind(node.op, OperatorKind.RANDOM):
            return False
        reads = node.op == "ReadVariableOp" or is_kind(node.op, OperatorKind.LOOKUP)
        computes = reads or is_flow(node) or is_kind(node.op, OperatorKind.SOURCE)
        return (computes or not is_stateful(node.op)) and self._is_pure(node)


def _is_unclear(value: Value) -> bool:
    return value is Kind.MET or value is Kind.ROW or (isinstance(value, Rows) and not _is_plain(value))


def _is_plain(rows: Rows) -> bool:
    return rows.position is None and not rows.selected and rows.outer in (1, None) and rows.inner in (1, None)
