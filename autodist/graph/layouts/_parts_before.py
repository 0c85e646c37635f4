"""Parts of a sum that exist before the sum is put together: nodes that need only parts do not have to wait.

Gradients of a normalization are an example: what goes back to the examples needs the whole sum of a gradient, and a
second sum needs it as a term, times a number that all replicas know. Computed from the whole, the second sum would have
to wait for the first exchange; computed from the parts, both are ready at the same time and travel together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from autodist.graph._graph_def import data_inputs, is_stateful, node_of
from autodist.graph.layouts._base import WHOLE, Layout, Partial
from autodist.graph.layouts._plan_costs import COMPUTING, LATENCY_BYTES
from autodist.graph.layouts._way import Way
from autodist.graph.layouts._ways import Ways

_MOST_BYTES = LATENCY_BYTES / COMPUTING
"""Up to which size replicas compute a tensor again rather than wait for others."""


class PartsBefore:
    """Finds ways that make parts of a sum, for nodes that every worker computes whole.

    Args:
        nodes: The flat step, by name.
        ways: The ways of its nodes.
        primary: By node, the way that was chosen.
        layouts: By tensor, how it is computed in that way.
        bytes_of: The size of a tensor.
        meetings: Nodes at which groups of replicas meet: what is behind them is of all groups' examples, and is not
            made from parts that one group has.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        ways: Ways,
        primary: Mapping[str, Way],
        layouts: Mapping[str, Layout],
        bytes_of: Callable[[str], float],
        meetings: Collection[str] = (),
    ) -> None:
        self._nodes = nodes
        self._ways = ways
        self._primary = primary
        self._layouts = layouts
        self._bytes_of = bytes_of
        self._meetings = meetings
        self._found: dict[str, Way | None] = {}

    def way(self, name: str) -> Way | None:
        """A way in which replicas make parts of a node's result from parts that they have; None if there is none."""
        if name not in self._found:
            self._found[name] = None  # loops lead nowhere
            self._found[name] = self._way(self._nodes[name])
        return self._found[name]

    def _way(self, node: Any) -> Way | None:
        is_done_once = not self._primary[node.name].is_whole or is_stateful(node.op)
        if is_done_once or node.name in self._meetings or self._bytes_of(node.name) > _MOST_BYTES:
            return None
        tensors = data_inputs(node)
        for position in range(len(tensors)):
            given: list[Layout] = [Partial() if k == position else WHOLE for k in range(len(tensors))]
            for way in self._ways.by_inputs(node, given) if self._are_there(tensors[position]) else ():
                parts = [t for t, to in zip(tensors, way.inputs, strict=True) if to == Partial()]
                rest = [to for to in way.inputs if to != Partial()]
                if way.outputs == (Partial(),) and all(map(self._are_there, parts)) and set(rest) <= {WHOLE}:
                    return way
        return None

    def _are_there(self, tensor: str) -> bool:
        """Whether replicas have parts of it, or can make them from such."""
        is_sum = self._layouts.get(tensor.removesuffix(":0")) == Partial()
        return is_sum or (tensor.removesuffix(":0") in self._primary and self.way(node_of(tensor)) is not None)
