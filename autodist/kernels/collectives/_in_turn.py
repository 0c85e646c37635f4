"""In turn: no gradient is sent before all of them exist, so that computing and communicating don't overlap.

Only for measuring what their overlap (wait-free back-propagation; thesis chapter 3) is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autodist.graph import GraphEditor, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel, SyncPoint


@dataclass(frozen=True)
class InTurn(Kernel):
    """Have every gradient of a layer of points wait for all gradients of that layer on this worker.

    Points of one layer never depend on each other, so nothing waits for itself.
    """

    name: ClassVar[str] = "in-turn"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS, Fact.KEPT})

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        layers: dict[int, list[SyncPoint]] = {}
        for point in graph.points:
            if point.variable is not None:
                layers.setdefault(point.layer, []).append(point)
        nodes = graph.edit(graph.layout.main_device)
        late = {p.name: p for layer, points in layers.items() for p in _waiting(nodes, layer, points)}
        points = tuple(late.get(point.name, point) for point in graph.points)
        inputs = {s: t for point in late.values() for s, t in zip(point.synced, point.local, strict=True)}
        return graph.edited(nodes, inputs, points=points)


def _waiting(nodes: GraphEditor, layer: int, points: Sequence[SyncPoint]) -> list[SyncPoint]:
    """The points of a layer with tensors that exist when all of them do."""
    made = dict.fromkeys(f"^{node_of(tensor)}" for point in points for tensor in point.local)
    barrier = nodes.add("NoOp", f"autodist/in_turn/layer_{layer}", made)
    return [_after(nodes, barrier, point) for point in points]


def _after(nodes: GraphEditor, barrier: str, point: SyncPoint) -> SyncPoint:
    def late(name: str, tensors: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            nodes.add("Identity", f"{name}/{k}", [tensor, f"^{barrier}"], device=nodes[node_of(tensor)].device, T=dtype)
            for k, (tensor, dtype) in enumerate(zip(tensors, point.dtypes, strict=True))
        )

    name = f"autodist/in_turn/{point.name}"
    parts = tuple(late(f"{name}/part_{r}", part) for r, part in enumerate(point.parts))
    return replace(point, local=late(f"{name}/local", point.local), parts=parts)
