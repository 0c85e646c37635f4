"""The tensors of a traced step for which layouts are searched, in sets that have one layout."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from autodist.graph import (
    TrainingGraph,
    data_inputs,
    itemsize,
    node_of,
    normalize,
    num_outputs,
    tensor_dtype,
    tensor_name,
)
from autodist.graph.layouts import Flows, Inference
from autodist.graph.operators import (
    Expression,
    Handle,
    Kind,
    Linearity,
    Operator,
    Passes,
    Signature,
    expression_of,
    meaning,
)
from autodist.search.tilings._unions import Unions

_TYPES = ("float", "bfloat", "int", "uint", "bool", "half", "double", "complex")


@dataclass
class StepTensors:
    """Tensors of more than one element that are no constants, in sets that have one layout.

    Variables, what is read from and assigned to them, and what optimizers compute with them element by element lie
    alike; so does what is computed element by element of one tensor alone.
    """

    graph: TrainingGraph
    examples: int
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    alike: Unions[str] = field(default_factory=Unions)
    bent: set[str] = field(default_factory=set)
    """Tensors that an operator which is not linear ties to another one: they can't be kept as terms of sums."""
    stored: dict[str, list[str]] = field(default_factory=dict)
    """By tensor, the variables whose values it holds."""

    def __post_init__(self) -> None:
        graph = self.graph
        self.nodes: dict[str, Any] = graph.analysis.nodes
        variables = {v.handle: (v.dtype, v.shape) for v in graph.variables}
        self._variables = {v.handle: v for v in graph.variables}
        self._sizes = Inference(graph.graph_def, graph.analysis.split, variables, self.examples, Flows(graph))
        for name in graph.analysis.order:
            for index in range(self.outputs_of(name)):
                self._note(tensor_name(name, index))
        for variable in graph.variables:
            if prod(variable.shape) > 1:
                self.shapes[variable.handle] = variable.shape
                self.alike.add(variable.handle)
                self.stored[variable.handle] = [variable.name]
        for name in graph.analysis.order:
            self._tie(self.nodes[name])
        self._tie_updates()

    def outputs_of(self, name: str) -> int:
        """The number of a node's results."""
        node = self.nodes[name]
        return num_outputs(node)

    def _note(self, tensor: str) -> None:
        shape, node = self._sizes.shape(tensor), self.nodes[node_of(tensor)]
        if shape is None or None in shape or node.op == "Const" or self._sizes.numbers(tensor) is not None:
            return
        known = tuple(size for size in shape if size is not None)
        if prod(known) > 1 and self._variables.get(node.name) is None and self._dtype(tensor).startswith(_TYPES):
            self.shapes[tensor] = known
            self.alike.add(tensor)

    def _dtype(self, tensor: str) -> str:
        try:
            return tensor_dtype(self.nodes, tensor)
        except (IndexError, TypeError):
            return ""

    def item_bytes(self, tensor: str) -> int:
        """Bytes of an element."""
        known = self._variables.get(tensor)
        return itemsize(known.dtype if known is not None else self._dtype(tensor))

    def inputs(self, node: Any) -> list[str]:
        """The inputs of a node."""
        return [normalize(tensor) for tensor in data_inputs(node)]

    def signature(self, node: Any) -> Signature:
        """A node as its description sees it."""
        inputs = self.inputs(node)
        shapes = tuple(self._sizes.shape(tensor) for tensor in inputs)
        made = tuple(self._sizes.shape(tensor_name(node.name, k)) for k in range(self.outputs_of(node.name)))
        return Signature(node.op, shapes, made, node.attr, lambda place: self._sizes.numbers(inputs[place]))

    def computation_key(self, node: Any) -> Hashable:
        """A key that is equal for nodes that compute the same of tensors of the same shapes."""
        asked = self.signature(node)
        attributes = sorted((key, value.SerializeToString()) for key, value in node.attr.items() if key[0] != "_")
        numbers = (asked.constant(place) for place in range(len(asked.inputs)))
        constants = tuple(None if value is None else (value.dtype, value.tobytes()) for value in numbers)
        return asked.op, asked.inputs, asked.outputs, tuple(attributes), constants

    def expression(self, node: Any) -> Expression | None:
        """The index expression of a node, with all sizes known; None if there is none."""
        found = expression_of(self.signature(node))
        return None if found is None or None in found.sizes.values() else found

    # What lies alike

    def _tie(self, node: Any) -> None:
        known, inputs = meaning(node.op), self.inputs(node)
        if known.handle is not None:
            self._tie_to_variable(node, known.handle, inputs)
        elif known.kind is Kind.ELEMENTWISE and self.outputs_of(node.name) > 1:
            for index, tensor in enumerate(inputs[: self.outputs_of(node.name)]):
                self._join(tensor, tensor_name(node.name, index))
        elif known.kind is Kind.ELEMENTWISE or known.passes in (Passes.SAME, Passes.TYPE):
            large = [tensor for tensor in dict.fromkeys(inputs) if tensor in self.shapes]
            if len(large) == 1 and self._join(large[0], node.name) and not _is_linear(known, inputs, large[0]):
                self.bent.add(node.name)

    def _tie_to_variable(self, node: Any, use: Handle, inputs: list[str]) -> None:
        handle = inputs[0]
        if use is Handle.READS and meaning(node.op).lookup is None:
            self._join(handle, node.name)
        elif use is Handle.ASSIGNS:
            for tensor in inputs[1:]:
                self._join(handle, tensor)

    def _join(self, one: str, other: str) -> bool:
        if one not in self.shapes or self.shapes[one] != self.shapes.get(other):
            return False
        self.alike.join(one, other)
        return True

    def _tie_updates(self) -> None:
        """Let tensors that are computed element by element with a variable, or with one tied to it, lie as it does."""
        kept = {self.alike.of(handle) for handle in self.stored}
        equal = [(name, found) for name in self.graph.analysis.order if len(found := self._as_large(name)) > 1]
        for order in (equal, equal[::-1]) * 2:
            for name, tensors in order:
                if kept & {self.alike.of(tensor) for tensor in tensors}:
                    for tensor in tensors[1:]:
                        self.alike.join(tensors[0], tensor)
                    kept.add(self.alike.of(name))

    def _as_large(self, name: str) -> list[str]:
        """The result of a node that computes element by element, and its inputs of the same shape."""
        node, shape = self.nodes[name], self.shapes.get(name)
        if shape is None or meaning(node.op).kind is not Kind.ELEMENTWISE:
            return []
        return [tensor for tensor in (*self.inputs(node), name) if self.shapes.get(tensor) == shape]


def _is_linear(known: Operator, inputs: list[str], of: str) -> bool:
    """Whether an operator whose other inputs are the same on all devices gives terms of its result for terms of one."""
    place = inputs.index(of)
    if known.linearity is None or inputs.count(of) > 1:
        return False
    if known.linearity is Linearity.JOINT:
        return len(inputs) == 1
    return known.linearity is Linearity.EACH or place == 0
