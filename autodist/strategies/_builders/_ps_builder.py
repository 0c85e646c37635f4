"""One parameter server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._servers import OnlyServers, server_devices

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["PS"]


@final
@dataclass(frozen=True)
class PS(OnlyServers):
    """One parameter server: all variables live on the chief's first CPU.

    The classic parameter server with a single server process, whose link is the bottleneck as soon as there are many
    workers: a baseline, and good for small models. Its parameters are those of :class:`PSLoadBalancing`.
    """

    name: ClassVar[str] = "PS"

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        home = server_devices(spec)[:1]
        configs = {variable.name: self.config(variable, home) for variable in graph.trainable}
        return assemble(self, graph, spec, configs, self.carrier)
