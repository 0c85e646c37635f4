"""The cost of a step's operations, from their shapes alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autodist.cost.operations._tensor_sizes import Sizes
from autodist.graph import LOOPS, FunctionBodies, called_functions, data_inputs, static_value
from autodist.graph.operators import operator

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

DEVICE_FLOPS = 1.2e11
"""Floating-point operations per second that are assumed for an unknown device: two CPU cores with wide vectors.

Fitted with :data:`MEMORY_BYTES_PER_S` to the measured profiles of the published trials (six models, four clusters, two
machines): estimates err by a factor of 1.4 on average."""

MEMORY_BYTES_PER_S = 2.4e10
"""Bytes per second that such a device reads and writes."""

_ITEM_BYTES = 4.0  # most numbers of a training step are float32


@dataclass(frozen=True)
class NodeCost:
    """The work of one operation in a step.

    Attributes:
        flops: Floating-point operations.
        bytes: Bytes that it reads and writes.
    """

    flops: float
    bytes: float

    @property
    def device_s(self) -> float:
        """Seconds that an average device takes for it."""
        return self.flops / DEVICE_FLOPS + self.bytes / MEMORY_BYTES_PER_S

    def times(self, number: int) -> NodeCost:
        """The cost of running it this many times."""
        return NodeCost(self.flops * number, self.bytes * number)


def node_costs(graph: TrainingGraph, batch_size: int) -> dict[str, NodeCost]:
    """By node, its cost; a node without shapes costs nothing.

    A loop costs as much as its body, times the most iterations if their number is a constant.

    Args:
        graph: G, with its GraphDef.
        batch_size: The assumed length of dims that the graph leaves open.
    """
    return _Costs(FunctionBodies(graph.graph_def), batch_size).by_node(graph.analysis.nodes)


def work_s(graph: TrainingGraph, batch_size: int) -> float:
    """Seconds that a device is assumed to compute a step, operation by operation.

    Args:
        graph: G, with its GraphDef.
        batch_size: The assumed length of dims that the graph leaves open.
    """
    return sum(cost.device_s for cost in node_costs(graph, batch_size).values())


class _Costs:
    def __init__(self, bodies: FunctionBodies, batch_size: int) -> None:
        self._bodies = bodies
        self._batch_size = batch_size
        self._known: dict[str, NodeCost] = {}

    def by_node(self, nodes: Mapping[str, Any]) -> dict[str, NodeCost]:
        sizes = Sizes(nodes, self._batch_size)
        return {name: self._cost(node, nodes, sizes) for name, node in nodes.items() if not _is_free(node.op)}

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
    """The iterations of a loop: its first two inputs in TensorFlow are its counter and the counter's limit."""
    _, most, *_ = [*data_inputs(loop), *(None, None)]
    found = None if most is None else static_value(dict(nodes), most)
    return max(1, int(found)) if found is not None and found.shape == () and found.dtype.kind == "i" else 1


def _own(node: Any, sizes: Sizes) -> NodeCost:
    inputs = data_inputs(node)
    known = operator(node.op)
    flops_of = None if known is None else known.flops
    read, written = [sizes.of(tensor) for tensor in inputs], sizes.of(node.name)
    flops = float(written if flops_of is None or not inputs else flops_of(node, inputs, sizes))
    return NodeCost(flops, _ITEM_BYTES * (written + sum(read)))


def _is_free(op: str) -> bool:
    known = operator(op)
    return known is not None and known.is_free
