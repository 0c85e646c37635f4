"""Costs of the ways of a node in a plan: bytes that replicas send, now or later, and a little for computing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

from autodist.graph._graph_def import data_inputs, node_of, normalize, split_tensor, tensor_dtype, tensor_name
from autodist.graph.analysis import StepAnalysis
from autodist.graph.layouts._base import (
    WHOLE,
    Cut,
    Layout,
    Own,
    Partial,
    Stretch,
    Tile,
    Whole,
    is_all_to_all,
    is_scattered,
)
from autodist.graph.layouts._batch_plan import lengths_of, neighbours_bytes, size_bytes
from autodist.graph.layouts._exchanged_so_far import ExchangedSoFar
from autodist.graph.layouts._gradients_wanted import gradients_wanted
from autodist.graph.layouts._made_again import MadeAgain
from autodist.graph.layouts._places import is_covered
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._tiled_variables import TiledVariables
from autodist.graph.layouts._way import Way
from autodist.graph.layouts._ways import Ways
from autodist.graph.operators import operator, puts_rows_together

LATENCY_BYTES = 10_000
"""The fixed cost of an exchange, as the number of bytes that could be sent in the same time."""
COMPUTING = 0.05
"""The cost of computing a byte of a result, relative to that of sending one."""
_OPERATION = 1e-3
"""The cost of an operation of a product, relative to that of sending a byte: 1 Gbit/s against 120 GFLOP/s."""

_FEWEST_REPLICAS = 2
"""As many replicas are assumed where a plan holds for any number of them."""


class _Lengths:
    """Sizes of tensors as an operator's description asks for them."""

    def __init__(self, shapes: StepShapes, batch_size: int) -> None:
        self._shapes = shapes
        self._batch_size = batch_size

    def of(self, tensor: str) -> int:
        """Number of elements."""
        return prod(self.shape(tensor))

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Length of each dim; () where nothing is known."""
        return lengths_of(self._shapes.shape(tensor) or (), self._batch_size)


class PlanCosts:
    """The costs of ways.

    Args:
        analysis: The flat step.
        tiled: The variables of which each replica has a part.
        shapes: What is known of sizes.
        ways: The ways of nodes.
        exchanged: The layouts into which tensors are brought in any case; it grows while the plan is made.
        batch_size: The number of examples.
        layout: How replicas have a tensor.
    """

    def __init__(
        self,
        analysis: StepAnalysis,
        tiled: TiledVariables,
        shapes: StepShapes,
        ways: Ways,
        exchanged: ExchangedSoFar,
        batch_size: int,
        layout: Callable[[str], Layout],
    ) -> None:
        self._nodes = analysis.nodes
        self._tiled = tiled
        self._shapes = shapes
        self._ways = ways
        self._exchanged = exchanged
        self._batch_size = batch_size
        self._wanted = gradients_wanted(analysis, tiled, shapes, ways)
        self._lengths = _Lengths(shapes, batch_size)
        given = tiled.given.union(analysis.split, analysis.marks)
        self._made_again = MadeAgain(self._nodes, ways, layout, self._sent, given)

    def of(self, node: Any, way: Way, layouts: Sequence[Layout], tensors: Sequence[str]) -> float:
        """Bytes that are sent for a way, plus a small cost of computing.

        Args:
            node: The node.
            way: How replicas share its work.
            layouts: By input, how replicas have it.
            tensors: Its inputs.
        """
        found = sum(map(self._sent, tensors, layouts, way.inputs))
        outputs = [tensor_name(node.name, k) for k in range(len(way.outputs))]
        made = sum(map(self.bytes, outputs))
        if any(isinstance(layout, Partial) for layout in way.inputs):
            given = max(self.bytes(t) for t, to in zip(tensors, way.inputs, strict=True) if isinstance(to, Partial))
            # It will have to be put together at some time.
            found += 2 * (made - given) + LATENCY_BYTES if made > given else 0
        elif self._tiled.parts and Partial() in way.outputs:
            found += made + LATENCY_BYTES  # by parts, this one too; tiles would not
        elif puts_rows_together(node.op) and any(isinstance(layout, Tile) for layout in way.inputs):
            found += made  # a table that is cut is cut by its rows, mostly: parts of rows would travel
        else:
            found += sum(map(self._settled, outputs, way.outputs))
        return found + made * COMPUTING * (1 if way.is_whole else 0.5)

    def once(self, tensor: str, source: Layout, target: Layout) -> float:
        """Bytes that are sent to bring a tensor from one layout to another."""
        if source == Partial():
            return self.times_sent(tensor, target)
        if isinstance(target, Stretch) and source == Tile(target.dim):
            return self._of_neighbours(tensor, target)
        if not self.goes_all_to_all(tensor, source, target):
            return self.bytes(tensor) + LATENCY_BYTES
        return min(self._all_to_all(tensor), self._made_again.cost(tensor, target))

    def way_again(self, tensor: str, source: Layout, target: Layout) -> Way | None:
        """A way in which replicas make their parts of a tensor again; None unless that costs less than to send them."""
        again = self.goes_all_to_all(tensor, source, target) and self._is_made_again(tensor, target)
        return self._made_again.way(tensor, target) if again else None

    def sent_for(self, tensor: str, source: Layout, target: Layout) -> Iterable[tuple[str, Layout]]:
        """The tensors sent to bring one into a layout, each with its own: that one, and what its parts are made of."""
        if self.way_again(tensor, source, target) is None:
            return ((tensor, target),)
        return ((tensor, target), *(self._made_again.sent(tensor, target) or ()))

    def _is_made_again(self, tensor: str, target: Layout) -> bool:
        return self._made_again.cost(tensor, target) < self._all_to_all(tensor)

    def _all_to_all(self, tensor: str) -> float:
        return self.bytes(tensor) / max(_FEWEST_REPLICAS, self._tiled.parts) + LATENCY_BYTES

    def goes_all_to_all(self, tensor: str, source: Layout, target: Layout) -> bool:
        """Whether replicas send each other what they lack of a tensor's parts along another dim.

        A worker without rows does not know how long a dim is whose length only the data say.
        """
        return is_all_to_all(source, target) and None not in (self._shapes.shape(tensor) or (None,))

    def _of_neighbours(self, tensor: str, stretch: Layout) -> float:
        """Bytes that replicas send to their neighbours."""
        assert isinstance(stretch, Stretch)
        return neighbours_bytes([stretch], self.bytes(tensor)) + LATENCY_BYTES

    def times_sent(self, tensor: str, target: Layout) -> float:
        """Bytes that are sent to put the parts of a sum together, all of them or each replica's rows."""
        return (1 if is_scattered(target) else 2) * self.bytes(tensor) + LATENCY_BYTES

    def of_computing_whole(self, tensors: Iterable[str]) -> float:
        """The cost, in bytes, of computing tensors whole on each replica, of which it would compute a part."""
        made = [*tensors]
        found = COMPUTING * sum(map(self.bytes, made)) + _OPERATION * sum(map(self._operations, made))
        return (1 - 1 / max(1, self._tiled.parts)) * found

    def _operations(self, tensor: str) -> float:
        """The floating-point operations of a product or the like; 0 for what an element of a result takes."""
        name, index = split_tensor(tensor)
        node = self._nodes[name]
        known = operator(node.op)
        if index or known is None or known.flops is None:
            return 0.0
        return known.flops(node, data_inputs(node), self._lengths)

    def bytes(self, tensor: str) -> float:
        """The bytes of a tensor."""
        shape = self._shapes.shape(tensor)
        if shape is None:
            return float(LATENCY_BYTES)
        return size_bytes(shape, tensor_dtype(self._nodes, tensor), self._batch_size)

    def _sent(self, tensor: str, source: Layout, target: Layout) -> float:
        if isinstance(source, Whole) and isinstance(target, Own):
            return 0 if self._ways.can_be_own(tensor) else float("inf")
        if source == target or isinstance(source, Whole) or self._exchanged.has(tensor, target):
            return 0
        if target in self._tiled.inputs.get(node_of(tensor), ()):
            return 0
        if isinstance(target, Partial) or isinstance(source, Own):
            return float("inf")
        if isinstance(target, Cut | Tile | Stretch) and self._exchanged.has(tensor, WHOLE):
            return 0
        if isinstance(target, Stretch) and self._is_within(tensor, target):
            return 0
        return self.once(tensor, source, target)

    def _is_within(self, tensor: str, target: Stretch) -> bool:
        """Whether replicas get these places of a tensor for other nodes."""
        others = [to for to in self._exchanged.of(tensor) if isinstance(to, Stretch) and to.dim == target.dim]
        return bool(others) and is_covered(target, others)

    def _settled(self, tensor: str, layout: Layout) -> float:
        """Bytes that are sent later, to bring the gradient of a variable into the layout in which it is wanted."""
        wanted = self._wanted.get(normalize(tensor))
        is_there = wanted is None or layout == wanted or isinstance(layout, Whole)
        return 0 if is_there or wanted is None else self.once(tensor, layout, wanted)
