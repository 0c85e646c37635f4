"""Local aggregation: one device per host adds up its replicas' gradients before they leave, and fetches values for all.

Hierarchical reduce and broadcast (thesis 7.3.2). Without a station every replica sends its own gradient, so a host with
n replicas sends n times as much. It also asks for the values itself, which TensorFlow may or may not answer by one
message per process (for CPUs it does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from autodist.graph import NodeList, node_of
from autodist.kernels._base import DistributedGraph, Fact, Kernel
from autodist.kernels._place import stays_at_home
from autodist.kernels.servers._units import ServedUnit, units_of
from autodist.strategies import Strategy


@dataclass(frozen=True)
class LocalAggregation(Kernel):
    """Let what this worker's replicas send to servers, and read from them, go through the strategy's stations.

    Attributes:
        strategy: Says for which variables, and over which devices.
    """

    name: ClassVar[str] = "local-aggregation"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.REPLICAS, Fact.KEPT})
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.HOST_SUMS})
    strategy: Strategy

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the module's docstring."""
        host = graph.layout.hosts[graph.layout.rank]
        stations = {u: station for u in units_of(graph, self.strategy) if (station := u.station(host)) is not None}
        if not stations or graph.layout.world_size == 1:
            return graph
        editor = graph.edit()
        for name, device in _joining(graph, stations).items():
            editor[name].device = device
        # Lookups of rows run where the variable lives.
        editor.redirect(_fetched(graph, stations, editor), stays_at_home)
        return graph.edited(editor)


def _joining(graph: DistributedGraph, stations: Mapping[ServedUnit, str]) -> dict[str, str]:
    """By node that joins replicas' gradients, the station."""
    device_of = {name: graph.layout.tf_device(station) for unit, station in stations.items() for name in unit.variables}
    return {node_of(t): device_of[p.variable] for p in graph.points if p.variable in device_of for t in p.local}


def _fetched(graph: DistributedGraph, stations: Mapping[ServedUnit, str], nodes: NodeList) -> dict[str, str]:
    """By read of a variable, the station's copy of its value; not where the worker has a copy of its own."""
    layout = graph.layout
    wanted = {
        name: layout.tf_device(station)
        for unit, station in stations.items()
        for name in unit.variables
        if name not in unit.proxied or layout.rank_of(unit.destination) == layout.rank
    }
    device_of = {v.handle: wanted[v.name] for v in graph.variables if v.name in wanted}
    dtype_of = {v.handle: v.dtype for v in graph.variables}
    found = {}
    for name, handles in graph.analyze().reads.items():
        if graph.nodes[name].op == "ReadVariableOp" and handles[0] in device_of:
            copy = f"autodist/station/{name}"
            nodes.add("Identity", copy, [name], device=device_of[handles[0]], T=dtype_of[handles[0]])
            found[name] = copy
    return found
