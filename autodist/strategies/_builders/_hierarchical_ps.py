"""Parameter servers with a stop on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._servers import OnlyServers, balanced, server_devices, transfer_devices

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["HierarchicalPS"]


@final
@dataclass(frozen=True)
class HierarchicalPS(OnlyServers):
    """Parameter servers; hosts with several replicas sum their gradients on their CPU before these leave the host.

    The two-level reduction and broadcast of thesis 7.3.2 (*transfer destination*): one message per host and variable
    in each direction instead of one per replica. Servers are those of :class:`PSLoadBalancing`, and so are the
    parameters. Hosts with one replica have nothing to sum, and send directly.
    """

    name: ClassVar[str] = "HierarchicalPS"

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        homes = balanced(graph, {variable.name for variable in graph.trainable}, server_devices(spec))
        transfer = transfer_devices(spec)
        configs = {v.name: self.config(v, homes[v.name], transfer=transfer) for v in graph.trainable}
        return assemble(self, graph, spec, configs, self.carrier)
