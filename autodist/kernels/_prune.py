"""Prune: drop what neither an effect nor an output needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import node_of, prune
from autodist.kernels._base import DistributedGraph, Kernel

__all__ = ["Prune"]


@dataclass(frozen=True)
class Prune(Kernel):
    """Keep only what the step has to deliver, and the placeholders that are fed."""

    name: ClassVar[str] = "prune"

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        fetched = [node_of(tensor) for tensor in (*graph.outputs, *graph.local_outputs)]
        pruned = prune(graph.graph_def, [*fetched, *graph.effects, *graph.kept])
        names = {node.name for node in pruned.node}
        feeds = tuple(
            tuple(f if f is not None and node_of(f) in names else None for f in per_input) for per_input in graph.feeds
        )
        borrowed = tuple(b if b in names else None for b in graph.borrowed)
        rows = graph.rows if graph.rows in names else None
        total = graph.total if graph.total in names else None
        batches = graph.batches if graph.batches in names else None
        return graph.replace(graph_def=pruned, feeds=feeds, borrowed=borrowed, rows=rows, total=total, batches=batches)
