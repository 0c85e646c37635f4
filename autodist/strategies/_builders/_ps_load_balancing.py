"""Parameter servers, balanced by bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._servers import OnlyServers, balanced, server_devices, transfer_devices

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class PSLoadBalancing(OnlyServers):
    """Parameter servers: each variable goes to the host that holds the fewest bytes so far, the largest first.

    Every host is a server, on its first CPU. Coupled variables stay together. The fullest server never holds more than
    the emptiest one and the largest set of coupled variables together.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0; 0 is bulk-synchronous.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        servers: On how many hosts there are servers, >= 1, those of lowest rank; None is all.
        stations: Whether hosts with several replicas sum their gradients on their CPU before these leave the host.
    """

    name: ClassVar[str] = "PSLoadBalancing"
    servers: int | None = None
    stations: bool = False

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        servers = server_devices(spec)[: self.servers]
        destinations = balanced(graph, {variable.name for variable in graph.trainable}, servers)
        transfer = transfer_devices(spec) if self.stations else ()
        configs = {v.name: self.config(v, destinations[v.name], transfer=transfer) for v in graph.trainable}
        return assemble(self, graph, spec, configs, self.carrier)
