"""What the operations of a step cost, from their shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from autodist.graph import LOOPS, Bodies, called_functions, data_inputs, static_value
from autodist.simulator._sizes import REDUCING, Sizes

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

    def times(self, number: int) -> NodeCost:
        """Of so many of it."""
        return NodeCost(self.flops * number, self.bytes * number)


def node_costs(graph: TrainingGraph, batch_size: int) -> dict[str, NodeCost]:
    """By node, what it costs; what has no shape costs nothing.

    A loop costs what its body does each time, as often as it runs at most, if that is a constant.

    Args:
        graph: G, with its GraphDef.
        batch_size: Takes the place of dims that the graph leaves open.

    """
    return _Costs(Bodies(graph.graph_def), batch_size).by_node(graph.analysis.nodes)


class _Costs:
    def __init__(self, bodies: Bodies, batch_size: int) -> None:
        self._bodies = bodies
        self._batch_size = batch_size
        self._known: dict[str, NodeCost] = {}

    def by_node(self, nodes: Mapping[str, Any]) -> dict[str, NodeCost]:
        sizes = Sizes(nodes, self._batch_size)
        return {name: self._cost(node, nodes, sizes) for name, node in nodes.items() if node.op not in _FREE}

    def _cost(self, node: Any, nodes: Mapping[str, Any], sizes: Sizes) -> NodeCost:
        functions = [self._function(called.name) for called in called_functions(node)]
        if node.op in LOOPS:
            return _sum(functions).times(_trips(node, nodes))
        return max(functions, key=lambda cost: cost.bytes) if functions else _own(node, sizes)

    def _function(self, name: str) -> NodeCost:
        if name not in self._known:
            self._known[name] = _sum(self.by_node(self._bodies.nodes(name)).values())
        return self._known[name]


def _sum(costs: Iterable[NodeCost]) -> NodeCost:
    every = list(costs)
    return NodeCost(sum(cost.flops for cost in every), sum(cost.bytes for cost in every))


def _trips(loop: Any, nodes: Mapping[str, Any]) -> int:
    """How often a loop runs: TensorFlow gives its counter and the most that it may reach as its first two inputs."""
    _, most, *_ = [*data_inputs(loop), *(None, None)]
    found = None if most is None else static_value(dict(nodes), most)
    return max(1, int(found)) if found is not None and found.shape == () and found.dtype.kind == "i" else 1


def _own(node: Any, sizes: Sizes) -> NodeCost:
    inputs = data_inputs(node)
    flops_of = _FLOPS.get(node.op)
    read, written = [sizes.of(tensor) for tensor in inputs], sizes.of(node.name)
    flops = float(written if flops_of is None or not inputs else flops_of(node, inputs, sizes))
    return NodeCost(flops, _ITEM_BYTES * (written + sum(read)))


def _matmul(node: Any, inputs: list[str], sizes: Sizes) -> float:
    """Two operations for each product, of which each element of the first matrix has one per column of the other."""
    return 2.0 * sizes.of(inputs[0]) * (sizes.shape(node.name) or (1,))[-1]


def _reduction(node: Any, inputs: list[str], sizes: Sizes) -> float:
    return sizes.of(inputs[0])


def _convolution(node: Any, inputs: list[str], sizes: Sizes) -> float:
    """Each output has a product with every weight of one filter."""
    return 2.0 * sizes.of(node.name) * _products(node, sizes.shape(inputs[1]))


def _input_gradient(node: Any, inputs: list[str], sizes: Sizes) -> float:
    """As many products as the convolution itself: each gradient of an output with every weight of its filter."""
    return 2.0 * sizes.of(inputs[2]) * _products(node, sizes.shape(inputs[1]))


def _filter_gradient(node: Any, inputs: list[str], sizes: Sizes) -> float:
    return 2.0 * sizes.of(inputs[2]) * _products(node, sizes.shape(node.name))


def _products(node: Any, kernel: tuple[int, ...]) -> float:
    """How many weights one filter has; in a depthwise convolution it looks at one channel only."""
    return float(prod(kernel[:2] if node.op.startswith("Depthwise") else kernel[:-1]))


_FLOPS: dict[str, Callable[[Any, list[str], Sizes], float]] = {
    **dict.fromkeys(REDUCING, _reduction),
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
