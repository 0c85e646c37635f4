"""Prune: drop what neither an effect nor an output needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import GraphEditor, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel


@dataclass(frozen=True)
class Prune(Kernel):
    """Keep only what the step has to deliver, and the placeholders that are fed."""

    name: ClassVar[str] = "prune"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.OWN})

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        fetched = [node_of(tensor) for tensor in (*graph.outputs, *graph.local_outputs)]
        # Nothing but the nodes that are kept is copied.
        editor = GraphEditor(graph.graph_def, index=graph.index)
        editor.prune([*fetched, *graph.effects, *graph.kept])

        def kept(fed: str | None) -> str | None:
            return fed if fed is not None and node_of(fed) in editor else None

        return graph.remade(
            editor,
            feeds=tuple(tuple(map(kept, per_input)) for per_input in graph.feeds),
            borrowed=tuple(map(kept, graph.borrowed)),
            rows=kept(graph.rows),
            total=kept(graph.total),
            batches=kept(graph.batches),
        )
