"""The index of a graph: made once, and kept up by the editors that change the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from autodist.graph._graph_def import node_of, order_by


class GraphIndex:
    """The nodes of a graph by name, in its order, and those that each of them needs.

    Attributes:
        nodes: The nodes by name.
    """

    def __init__(self, nodes: dict[str, Any]) -> None:
        self.nodes = nodes
        self._needs: dict[str, tuple[str, ...]] | None = None
        self._waits: dict[str, int] = {}
        """By node that waits for others, their number: they are the last that it needs."""

    @classmethod
    def of(cls, graph_def: Any) -> GraphIndex:
        """The index of a graph."""
        return cls({node.name: node for node in graph_def.node})

    def of_copy(self, graph_def: Any) -> GraphIndex:
        """The index of a copy of the graph, which is changed on its own; what is known of the inputs is kept."""
        if len(self.nodes) != len(graph_def.node):  # two nodes of one name
            return GraphIndex.of(graph_def)
        found = GraphIndex(dict(zip(self.nodes, graph_def.node, strict=True)))
        if self._needs is not None:
            found._needs, found._waits = self._needs.copy(), self._waits.copy()
        return found

    @property
    def needs(self) -> dict[str, tuple[str, ...]]:
        """By node, those whose data it takes, in the order of its inputs, and then those that it waits for."""
        if self._needs is None:
            self._needs = {}
            known = dict(zip(self.nodes, self.nodes, strict=True))  # one text for each name: its hash is computed once
            for name, node in self.nodes.items():
                tensors = list(node.input)
                self._needs[name] = tuple([known.get(source, source) for source in map(node_of, tensors)])
                self._note_waits(name, tensors)
        return self._needs

    @property
    def sources(self) -> dict[str, tuple[str, ...]]:
        """By node, those whose data it takes; made again each time."""
        sources = dict(self.needs)
        for name, count in self._waits.items():
            sources[name] = sources[name][:-count]
        return sources

    @property
    def order(self) -> list[str]:
        """Node names, inputs before consumers; made again each time."""
        return order_by(self.needs)

    def ancestors(self, roots: Iterable[str]) -> set[str]:
        """Names of some nodes and of all that they need."""
        needs, seen, stack = self.needs, set[str](), list(roots)
        while stack:
            name = stack.pop()
            if name not in seen:
                seen.add(name)
                stack.extend(needs[name])
        return seen

    # For editors -------------------------------------------------------------------------------------------------

    def note(self, node: Any) -> None:
        """Note a node that is new, or has other inputs."""
        self.nodes[node.name] = node
        if self._needs is not None:
            tensors = list(node.input)
            self._needs[node.name] = tuple(map(node_of, tensors))
            self._note_waits(node.name, tensors)

    def part(self, graph_def: Any, kept: Sequence[str]) -> GraphIndex:
        """The index of a graph that has some of the nodes; what is known of their inputs is kept."""
        found = GraphIndex(dict(zip(kept, graph_def.node, strict=True)))
        if self._needs is not None:
            found._needs = {name: self._needs[name] for name in kept}
            found._waits = {name: count for name, count in self._waits.items() if name in found.nodes}
        return found

    def _note_waits(self, name: str, tensors: Sequence[str]) -> None:
        count = len(tensors)
        while count and tensors[count - 1].startswith("^"):
            count -= 1
        if count < len(tensors):
            self._waits[name] = len(tensors) - count
        else:
            self._waits.pop(name, None)
