"""Estimates the number of elements of a step's tensors whose dims tracing has left open."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, TypeAlias

from autodist.graph import data_inputs, node_of, split_tensor, tensor_shape
from autodist.graph.operators import Kind, is_kind, passes_on

_Shape: TypeAlias = "tuple[int | None, ...]"


class Sizes:
    """Elements by tensor.

    After tracing it is not even known how many dims of a gradient are open, and a product may have a row for each
    example or for each word of one. But a reshape or an elementwise operation keeps the number of elements, and a sum
    does not increase it. Only if nothing is known of the inputs, an open dim is taken to be as long as the batch.

    Args:
        nodes: Nodes of the step, by name.
        batch_size: Examples.
    """

    def __init__(self, nodes: Mapping[str, Any], batch_size: int) -> None:
        self._nodes = nodes
        self._batch_size = batch_size
        self._found: dict[str, int] = {}

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The dims of a tensor, with the batch size for each open one; () where nothing is known."""
        return tuple(self._batch_size if size is None else size for size in self._traced(tensor))

    def of(self, tensor: str) -> int:
        """The number of elements of a tensor; 1 where nothing is known."""
        stack = [tensor]
        while stack:
            missing = [source for source in self._sources(stack[-1]) if source not in self._found]
            if missing:
                stack += missing
            else:
                latest = stack.pop()
                self._found[latest] = self._counted(latest)
        return self._found[tensor]

    def _traced(self, tensor: str) -> _Shape:
        return (tensor_shape(self._nodes, tensor) if node_of(tensor) in self._nodes else None) or ()

    def _sources(self, tensor: str) -> list[str]:
        """The tensors whose numbers of elements determine that of this one."""
        shape, node = self._traced(tensor), self._nodes.get(split_tensor(tensor)[0])
        if node is None or None not in shape:
            return []
        inputs = data_inputs(node)
        if passes_on(node.op) or node.op == "MatMul":
            return inputs[:1]
        if is_kind(node.op, Kind.REDUCTION):
            return inputs[:1] if _is_open(shape) else []
        return [source for source in inputs if self._traced(source) == shape]

    def _counted(self, tensor: str) -> int:
        shape = self.shape(tensor)
        known = [self._found[source] for source in self._sources(tensor)]
        if not known:
            return prod(shape)
        node = self._nodes[split_tensor(tensor)[0]]
        if node.op != "MatMul":
            return max(known)
        contracted = self.shape(data_inputs(node)[1])[-1 if node.attr["transpose_b"].b else 0]
        return known[0] // max(contracted, 1) * shape[-1] if not node.attr["transpose_a"].b else prod(shape)


def _is_open(shape: _Shape) -> bool:
    return shape.count(None) > 1
