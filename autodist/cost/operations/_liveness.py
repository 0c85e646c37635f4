"""Outputs of operations that a replica keeps during a step, because later operations read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph import data_inputs, itemsize, normalize, output_shape, tensor_dtype
from autodist.graph.operators import Passes, passes_on

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph


def activation_bytes(graph: TrainingGraph, examples: int) -> float:
    """The most bytes that outputs with rows of the batch take at one time, in the order of the trace.

    Tensors inside loops and the working memory of operations are left out. A graph that is only described has no
    activations.

    Args:
        graph: G.
        examples: Examples of the replica's part of the batch.
    """
    if graph.graph_def is None:
        return 0.0
    tensors = _Tensors(graph.analysis.nodes, graph.analysis.marks, examples)
    for place, name in enumerate(graph.analysis.order):
        tensors.add(place, name)
    return tensors.most_bytes


class _Tensors:
    """Tensors with rows of the batch: their bytes, and the places in the order at which they are made and last read."""

    def __init__(self, nodes: dict[str, Any], gradients: Container[str], examples: int) -> None:
        self._nodes = nodes
        self._gradients = gradients
        self._examples = examples
        self._bytes: dict[str, float] = {}
        self._made: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._source: dict[str, str] = {}

    def add(self, place: int, name: str) -> None:
        """Take the next node in the order."""
        node = self._nodes[name]
        inputs = [self._source.get(tensor, tensor) for tensor in map(normalize, data_inputs(node))]
        self._last.update(dict.fromkeys(inputs, place))
        if name in self._gradients:  # gradients are counted elsewhere
            self._bytes.update(dict.fromkeys(inputs, 0.0))
            return
        if inputs and passes_on(node.op, Passes.SAME, Passes.FORM):
            self._source[name] = inputs[0]
            return
        largest = max((self._bytes.get(tensor, 0.0) for tensor in inputs), default=0.0)
        for index in range(len(node.attr["_output_shapes"].list.shape) if "_output_shapes" in node.attr else 0):
            tensor = f"{name}:{index}" if index else name
            self._made[tensor] = place
            self._bytes[tensor] = self._size(tensor, output_shape(node, index), largest)

    def _size(self, tensor: str, shape: tuple[int | None, ...] | None, largest: float) -> float:
        if shape is not None and None not in shape:
            return 0.0
        each = itemsize(tensor_dtype(self._nodes, tensor))
        if shape is None or shape.count(None) > 1:  # unknown batch dim: at most as its inputs
            return largest if each else 0.0
        return float(prod(self._examples if size is None else size for size in shape) * each)

    @property
    def most_bytes(self) -> float:
        """The most bytes at one time."""
        changes: dict[int, float] = defaultdict(float)
        for tensor, place in self._made.items():
            changes[place] += self._bytes[tensor]
            changes[self._last.get(tensor, place) + 1] -= self._bytes[tensor]
        return max(accumulate(changes[place] for place in sorted(changes)), default=0.0)
