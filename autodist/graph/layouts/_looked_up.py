"""Rows looked up in parts of tables, which replicas have as parts of a sum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autodist.graph._graph_def import node_of
from autodist.graph.layouts._base import Cut, Layout, Multiple, Partial, Shape
from autodist.graph.layouts._way import Way


class LookedUp:
    """Remembers it, since replicas should put it together by rows.

    Numbers of rows come to every replica, whole, so nothing else would say that what follows can be cut by examples:
    each replica would do all of it.
    """

    def __init__(self) -> None:
        self._nodes: set[str] = set()

    def note(self, name: str, way: Way) -> None:
        """Take notice of the way of a node."""
        if way.masks is not None and way.outputs == (Partial(),):
            self._nodes.add(name)
        else:
            self._nodes.discard(name)

    def allows(self, way: Way, inputs: Sequence[str]) -> bool:
        """Whether a way does not go on with parts of sums of what is looked up."""
        pairs = zip(inputs, way.inputs, strict=False)
        return not any(layout == Partial() and node_of(tensor) in self._nodes for tensor, layout in pairs)

    def by_rows(self, tensor: str, layout: Layout, shape: Shape) -> Iterator[Cut]:
        """How such a tensor is cut by rows; nothing for any other."""
        rows = shape[0] if shape else None
        if layout == Partial() and isinstance(rows, Multiple) and node_of(tensor) in self._nodes:
            yield Cut(0, 1, rows.times)
