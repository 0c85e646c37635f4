"""Parameter servers, balanced by bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._coupled import coupled_units
from autodist.strategies._strategy import GraphConfig, PSSynchronizer, Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec

__all__ = ["PSLoadBalancing"]


@final
@dataclass(frozen=True)
class PSLoadBalancing(StrategyBuilder):
    """Parameter servers: each variable goes to the host that holds the fewest bytes so far, the largest first.

    Every host is a server, on its first CPU. Coupled variables stay together. The fullest server never holds more than
    the emptiest one and the largest set of coupled variables together.
    """

    name: ClassVar[str] = "PSLoadBalancing"

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        homes = _assign(coupled_units(graph), [host.cpu_devices[0].name for host in spec.hosts])
        configs = tuple(VariableConfig.whole(v.name, PSSynchronizer(homes[v.name])) for v in graph.trainable)
        return Strategy(GraphConfig(replica_names(spec), "queue"), configs, builder=str(self))


def _assign(units: tuple[tuple[Variable, ...], ...], servers: list[str]) -> dict[str, str]:
    loads = dict.fromkeys(servers, 0)
    homes: dict[str, str] = {}
    for unit in sorted(units, key=lambda unit: (-_size_bytes(unit), min(v.name for v in unit))):
        server = min(servers, key=loads.__getitem__)
        loads[server] += _size_bytes(unit)
        homes.update((variable.name, server) for variable in unit)
    return homes


def _size_bytes(unit: tuple[Variable, ...]) -> int:
    return sum(variable.size_bytes for variable in unit)
