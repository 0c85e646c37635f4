"""Tensors that replicas make again, in parts along another dim, rather than send each other the parts that they have.

Rows of one and zeros are an example: the numbers that they are made of are thousands of times smaller. Where a step
multiplies such rows by a table that is cut, each replica needs the places of its own part of the table for all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from autodist.graph._graph_def import data_inputs, is_stateful, split_tensor
from autodist.graph.layouts._base import Layout, Tile, Whole
from autodist.graph.layouts._way import Way
from autodist.graph.layouts._ways import Ways
from autodist.graph.operators import Kind, is_kind

_DEEPEST = 8
"""Through how many nodes a tensor is followed to what it is made of."""


class MadeAgain:
    """Finds ways that make parts of a tensor from what is cheaper to send than the tensor.

    Args:
        nodes: The flat step, by name.
        ways: The ways of its nodes.
        layout: How replicas have a tensor.
        cost: What it costs to bring a tensor from one layout to another by sending; nothing if it is brought anyway.
        given: Nodes whose ways are not free: variables, arguments, gradients, meetings of groups.
    """

    def __init__(
        self,
        nodes: Mapping[str, Any],
        ways: Ways,
        layout: Callable[[str], Layout],
        cost: Callable[[str, Layout, Layout], float],
        given: Collection[str],
    ) -> None:
        self._nodes = nodes
        self._ways = ways
        self._layout = layout
        self._cost = cost
        self._given = given

    def way(self, tensor: str, target: Layout) -> Way | None:
        """The way to make parts of a tensor from what replicas have, or send; None if there is none."""
        name, index = split_tensor(tensor)
        node = self._nodes[name]
        if not isinstance(target, Tile) or name in self._given or is_stateful(node.op):
            return None
        if is_kind(node.op, Kind.ELEMENTWISE, Kind.MOVING):
            return self._ways.of_part(node, index, target)
        return self._ways.by_output(node, index, target)

    def sent(self, tensor: str, target: Layout) -> tuple[tuple[str, Layout], ...] | None:
        """The tensors that are sent to make the parts, each with its layout then; None if they can't be made."""
        found: list[tuple[str, Layout]] = []
        for pair in self._sent(tensor, target, _DEEPEST):
            if pair is None:
                return None
            found.append(pair)
        return tuple(found)

    def cost(self, tensor: str, target: Layout) -> float:
        """The cost of what replicas send to make their parts; infinite if they can't make them."""
        sent = self.sent(tensor, target)
        return float("inf") if sent is None else sum(self._cost(one, self._layout(one), to) for one, to in sent)

    def _sent(self, tensor: str, target: Layout, depth: int) -> Iterator[tuple[str, Layout] | None]:
        """The tensors that have to be sent, and None for each part that can't be made."""
        way = self.way(tensor, target) if depth else None
        if way is None:
            yield None
            return
        tensors = data_inputs(self._nodes[split_tensor(tensor)[0]])
        for position, (one, to) in enumerate(zip(tensors, way.inputs, strict=True)):
            had = self._layout(one)
            if position in way.lengths or had == to or isinstance(had, Whole):
                continue
            if isinstance(to, Whole):
                yield one, to
            else:
                yield from self._sent(one, to, depth - 1)
