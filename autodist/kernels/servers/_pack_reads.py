"""Pack reads: what a worker reads from one server at the beginning of a step comes in few messages, and once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from autodist.graph import Variable, data_inputs, node_of, normalize
from autodist.kernels._base import DistributedGraph, Fact, Kernel
from autodist.kernels._packing import Parcel, packed, small_parcel
from autodist.kernels._place import runs_at_home, stays_at_home
from autodist.kernels.servers._units import units_of
from autodist.strategies import Strategy

__all__ = ["PackReads"]


@dataclass(frozen=True)
class PackReads(Kernel):
    """Let the small values that this worker reads from each server travel together.

    Only those that are read whole and at once: what is read after an update within the step waits for it, and would
    have the others wait as well. A variable that is read several times travels once, however large it is.

    Attributes:
        strategy: Says which variables are on servers, and what is small.
    """

    name: ClassVar[str] = "pack-reads"
    needs: ClassVar[frozenset[Fact]] = frozenset({Fact.COPIES})
    strategy: Strategy

    def apply(self, graph: DistributedGraph) -> DistributedGraph:
        """See the class."""
        limit = self.strategy.graph.pack_bytes or 0
        if not limit:
            return graph
        served = self._served(graph)
        if not served:
            return graph
        first: dict[str, str] = {}
        reads: dict[str, str] = {}
        for node in graph.graph_def.node:
            handle = node_of(node.input[0]) if node.op == "ReadVariableOp" and len(node.input) == 1 else ""
            if handle in served:
                reads[node.name] = first.setdefault(handle, node.name)
        wanted = {reads[normalize(t)] for node in graph.graph_def.node for t in _values(node) if normalize(t) in reads}
        by_server: dict[str, list[Parcel]] = {}
        for handle, variable in served.items():
            read = first.get(handle)
            parcel = small_parcel(read, variable.dtype, variable.shape, limit) if read in wanted else None
            if parcel is not None:
                by_server.setdefault(graph.homes[variable.name], []).append(parcel)
        nodes = graph.edit()
        arrived: dict[str, str] = {}
        for number, (server, parcels) in enumerate(by_server.items()):
            name = f"autodist/packed/values_{number}"
            arrived |= packed(nodes, name, parcels, server, graph.layout.main_device, limit)
        instead = {read: arrived.get(one, one) for read, one in reads.items()}
        if all(read == one for read, one in instead.items()):
            return graph
        nodes.redirect(instead, stays_at_home)
        return graph.edited(nodes)

    def _served(self, graph: DistributedGraph) -> dict[str, Variable]:
        """By handle, the variables of other workers' servers that this worker has no copy of."""
        layout = graph.layout
        served = {
            name
            for unit in units_of(graph, self.strategy)
            if layout.rank_of(unit.destination) != layout.rank and not unit.synchronizer.is_relaxed
            for name in unit.variables
            if name not in unit.proxied
        }
        return {v.handle: v for v in graph.variables if v.name in served}


def _values(node: Any) -> list[str]:
    """The inputs of a node that it needs on this worker: lookups run where the variable lives."""
    return data_inputs(node)[1:] if runs_at_home(node.op) else data_inputs(node)
