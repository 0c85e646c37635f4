"""What the operations of a step cost, from their shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph import data_inputs, output_shape, split_tensor

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

__all__ = ["DEVICE_FLOPS", "MEMORY_BYTES_PER_S", "NodeCost", "node_costs"]

DEVICE_FLOPS = 5e10
"""Floating-point operations per second of a device of which nothing is known: a CPU core with wide vectors."""

MEMORY_BYTES_PER_S = 1e10
"""Bytes that such a device reads and writes per second."""

_ITEM_BYTES = 4.0  # most numbers of a training step are float32
_FREE = frozenset(
    {"Const", "Placeholder", "Identity", "IdentityN", "NoOp", "Reshape", "Shape", "ShapeN", "StopGradient"}
)


@dataclass(frozen=True)
class NodeCost:
    """What one operation does in a step.

    Attributes:
        flops: Floating-point operations.
        bytes: What it reads and writes.

    """

    flops: float
    bytes: float


def node_costs(graph: TrainingGraph, batch_size: int) -> dict[str, NodeCost]:
    """By node, what it costs; what has no shape costs nothing.

    Args:
        graph: G, with its GraphDef.
        batch_size: Takes the place of dims that the graph leaves open.

    """
    shapes = _Shapes(graph.analysis.nodes, batch_size)
    return {name: _cost(node, shapes) for name, node in graph.analysis.nodes.items() if node.op not in _FREE}


class _Shapes:
    def __init__(self, nodes: Mapping[str, Any], batch_size: int) -> None:
        self._nodes = nodes
        self._batch_size = batch_size

    def of(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor; () where nothing is known of it."""
        name, index = split_tensor(tensor)
        shape = output_shape(self._nodes[name], index) if name in self._nodes else None
        return tuple(self._batch_size if size is None else size for size in shape or ())


def _cost(node: Any, shapes: _Shapes) -> NodeCost:
    output = shapes.of(node.name)
    inputs = [shapes.of(tensor) for tensor in data_inputs(node)]
    flops_of = _FLOPS.get(node.op)
    flops = float(prod(output)) if flops_of is None else flops_of(node, inputs, output)
    return NodeCost(flops, _ITEM_BYTES * (prod(output) + sum(prod(shape) for shape in inputs)))


def _matmul(node: Any, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> float:
    """Two operations for each product, of which each output has as many as the contracted dim is long."""
    if not inputs or len(inputs[0]) < 2:
        return float(prod(output))
    transposed = any(node.attr[name].b for name in ("transpose_a", "adj_x") if name in node.attr)
    return 2.0 * prod(output) * inputs[0][-2 if transposed else -1]


def _convolution(node: Any, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> float:
    """Each output has a product with every weight of one filter."""
    return 2.0 * prod(output) * _products(node, inputs[1] if len(inputs) > 1 else ())


def _input_gradient(node: Any, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> float:
    """As many products as the convolution itself: each gradient of an output with every weight of its filter."""
    return 2.0 * prod(inputs[2]) * _products(node, inputs[1]) if len(inputs) > 2 else float(prod(output))


def _filter_gradient(node: Any, inputs: list[tuple[int, ...]], output: tuple[int, ...]) -> float:
    return 2.0 * prod(inputs[2]) * _products(node, output) if len(inputs) > 2 else float(prod(output))


def _products(node: Any, kernel: tuple[int, ...]) -> float:
    """How many weights one filter has; in a depthwise convolution it looks at one channel only."""
    return float(prod(kernel[:2] if node.op.startswith("Depthwise") else kernel[:-1]))


_FLOPS: dict[str, Callable[[Any, list[tuple[int, ...]], tuple[int, ...]], float]] = {
    "MatMul": _matmul,
    "BatchMatMul": _matmul,
    "BatchMatMulV2": _matmul,
    "BatchMatMulV3": _matmul,
    "Conv2D": _convolution,
    "Conv3D": _convolution,
    "DepthwiseConv2dNative": _convolution,
    "Conv2DBackpropInput": _input_gradient,
    "Conv2DBackpropFilter": _filter_gradient,
    "Conv3DBackpropInputV2": _input_gradient,
    "Conv3DBackpropFilterV2": _filter_gradient,
    "DepthwiseConv2dNativeBackpropInput": _input_gradient,
    "DepthwiseConv2dNativeBackpropFilter": _filter_gradient,
}
