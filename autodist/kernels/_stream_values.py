"""Stream values: what a server holds goes to all workers when a step begins, without being asked for.

TensorFlow fetches a value when a worker's part of the graph needs it: a request, and an answer of up to the whole
variable. Here the server's worker sends its values when its own step begins, those that the forward pass needs first at
the front, in small pieces (P3: Jayarajan et al., 2019; ByteScheduler: Peng et al., 2019); so the first layers compute
while the values of the last are on their way.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.graph import NodeList, StepAnalysis, Variable, data_inputs, node_of, normalize
from autodist.kernels._base import DistributedGraph, Kernel, SyncPoint
from autodist.kernels._mail import Streams
from autodist.kernels._place import LOOKUPS
from autodist.kernels._units import units_of
from autodist.strategies import Strategy

__all__ = ["StreamValues"]


@dataclass(frozen=True)
class StreamValues(Kernel):
    """Have workers get the values that they read whole at a step's begin by streams, where these carry gradients too.

    What every worker reads is what its gradients come from. Lookups still go to the server, as does what is read after
    an update within the step.

    Attributes:
        strategy: Says which variables are on servers, and whether there are streams.
        step: Name of the compiled step, part of the streams' names.
    """

    name: ClassVar[str] = "stream-values"
    strategy: Strategy
    step: str

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        if graph.layout.world_size == 1 or not self.strategy.graph.has_streams:
            return graph
        owners = self._owners(graph)
        nodes = NodeList()
        received: dict[str, str] = {}
        read: dict[str, str] = {}
        sent: list[str] = []
        analysis = graph.analyze()
        for number, need in enumerate(_needs(analysis, graph.points, owners)):
            variable, owner = owners[need.handle]
            shared = f"{self.step}/{variable.name}"
            prefix = f"autodist/values/{number}"
            stream = Streams(nodes, "", prefix, shared, graph.layout.main_device, need.depth)
            if owner != graph.layout.rank:
                value = stream.take("value", "receive", [variable.dtype], owner)
                received |= dict.fromkeys(need.reads, value)
                continue
            others = [rank for rank in range(graph.layout.world_size) if rank != owner]
            value = nodes.add("ReadVariableOp", f"{prefix}/read", [need.handle], dtype=variable.dtype)
            sent.append(stream.broadcast("value", "send", [value], [variable.dtype], (), others))
            read[need.handle] = value
        graph_def = _rewired(graph.graph_def, received, _writes_after(analysis, read), nodes)
        return graph.replace(graph_def=graph_def, effects=(*graph.effects, *sent))

    def _owners(self, graph: DistributedGraph) -> dict[str, tuple[Variable, int]]:
        """By handle, the variables on servers of which workers have no copies, and whose worker serves them."""
        by_name = {v.name: v for v in graph.variables}
        return {
            by_name[name].handle: (by_name[name], graph.layout.rank_of(unit.destination))
            for unit in units_of(graph, self.strategy)
            if not unit.synchronizer.is_relaxed
            for name in unit.variables
            if name not in unit.proxied
        }


@dataclass(frozen=True)
class _Need:
    """What all workers read whole of a variable, and how far from the step's begin it is needed."""

    handle: str
    reads: tuple[str, ...]
    depth: int


def _needs(analysis: StepAnalysis, points: Iterable[SyncPoint], handles: Container[str]) -> list[_Need]:
    """The same on all workers: what gradients and losses come from, before anything is synchronized."""
    needed = _computed_everywhere(analysis, points)
    depths: dict[str, int] = {}
    for name in analysis.order:
        depths[name] = 1 + max((depths[source] for source in analysis.sources[name]), default=0)
    reads: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for name, node in analysis.nodes.items():
        handle = node_of(node.input[0]) if node.op == "ReadVariableOp" and len(node.input) == 1 else ""
        if handle not in handles:
            continue
        takers = [t for t in analysis.consumers.get(name, ()) if t in needed and name in _taken(analysis.nodes[t])]
        if takers:
            reads.setdefault(handle, []).append(name)
            first[handle] = min([depths[t] for t in takers] + [first.get(handle, len(depths))])
    return [_Need(handle, tuple(reads[handle]), first[handle]) for handle in sorted(reads)]


def _computed_everywhere(analysis: StepAnalysis, points: Iterable[SyncPoint]) -> set[str]:
    every = list(points)
    ends = {name for point in every for name in point.synced}
    stack = [node_of(t) for point in every for tensors in (point.local, *point.parts) for t in tensors]
    found: set[str] = set()
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack.extend(source for source in analysis.sources[name] if source not in ends)
    return found


def _taken(node: Any) -> set[str]:
    """The nodes whose values a node takes on its own worker: lookups run where the variable lives."""
    inputs = data_inputs(node)
    return set(map(node_of, inputs[1:] if node.op in LOOKUPS else inputs))


def _writes_after(analysis: StepAnalysis, read: Mapping[str, str]) -> dict[str, list[str]]:
    """By node that changes variables, the reads that must come before."""
    return {
        name: [read[handle] for handle in write.handles if handle in read] for name, write in analysis.writes.items()
    }


def _rewired(graph_def: Any, received: Mapping[str, str], waits: Mapping[str, Iterable[str]], nodes: NodeList) -> Any:
    copy = type(graph_def)()
    copy.CopyFrom(graph_def)
    for node in copy.node:
        for k in range(1 if node.op in LOOKUPS else 0, len(node.input)):
            node.input[k] = received.get(normalize(node.input[k]), node.input[k])
        node.input.extend(f"^{read}" for read in waits.get(node.name, ()))
    copy.node.extend(nodes.nodes)
    return copy
