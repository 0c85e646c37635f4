"""Rows looked up in parts of tables, which replicas have as parts of a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autodist.graph._graph_def import node_of
from autodist.graph.layouts._base import Cut, Layout, Multiple, Partial, Shape
from autodist.graph.layouts._way import Way


class LookedUp:
    """Remembers which nodes look rows up in parts of tables, so that replicas sum their results by rows.

    Every replica has all row numbers, so nothing else would show that the nodes that follow can be cut by examples:
    each replica would compute all of them.
    """

    def __init__(self) -> None:
        self._nodes: set[str] = set()

    def note(self, name: str, way: Way) -> None:
        """Record whether the way of a node looks rows up in a part of a table."""
        if way.masks is not None and way.outputs == (Partial(),):
            self._nodes.add(name)
        else:
            self._nodes.discard(name)

    def allows(self, way: Way, inputs: Sequence[str]) -> bool:
        """Whether a way takes no looked-up rows as terms of a sum."""
        pairs = zip(inputs, way.inputs, strict=False)
        return not any(layout == Partial() and node_of(tensor) in self._nodes for tensor, layout in pairs)

    def by_rows(self, tensor: str, layout: Layout, shape: Shape) -> Iterator[Cut]:
        """How a tensor of looked-up rows is cut by rows; yields nothing for any other."""
        rows = shape[0] if shape else None
        if layout == Partial() and isinstance(rows, Multiple) and node_of(tensor) in self._nodes:
            yield Cut(0, 1, rows.times)
