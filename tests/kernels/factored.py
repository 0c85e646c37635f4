"""A builder that lets sufficient factors travel wherever a gradient has some."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from autodist.graph import factors_of
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    Strategy,
    StrategyBuilder,
    VariableConfig,
)
from autodist.strategies._coupled import coupled_units


@dataclass(frozen=True)
class Factored(StrategyBuilder):
    """Broadcast, or PS with the encoder; all else by AllReduce or PS.

    Coupled variables stay together: what has no factors is pushed or reduced as it is.
    """

    name: ClassVar[str] = "Factored"
    to: Literal["workers", "server"] = "workers"
    communicator: Literal["tcp", "horovod", "collective"] = "collective"

    def build(self, graph, spec):
        configs = {}
        for group, unit in enumerate(coupled_units(graph)):
            home = PSSynchronizer(spec.hosts[group % len(spec.hosts)].cpu_devices[0].name)
            for number, variable in enumerate(unit):
                other = AllReduceSynchronizer(100 * group + number, communicator=self.communicator)
                has_factors = factors_of(graph, variable.name).obstacle is None
                configs[variable.name] = self.config(variable, home, other, has_factors)
        replicas = tuple(device.name for device in spec.replicas)
        carrier = "tcp" if self.to == "server" else self.communicator
        return Strategy(GraphConfig(replicas, carrier), tuple(configs[v.name] for v in graph.trainable), str(self))

    def config(self, variable, home, other, has_factors):
        if self.to == "server":
            return VariableConfig.whole(variable.name, home, "SufficientFactors" if has_factors else None)
        chosen = BroadcastSynchronizer(self.communicator) if has_factors else other
        return VariableConfig.whole(variable.name, chosen)
