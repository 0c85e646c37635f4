"""Units: variables that are updated together at one parameter server, and the senders of their gradients."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from autodist.graph import Variable
from autodist.kernels._base import DistributedGraph, Layout, SyncPoint
from autodist.kernels._synchronizers import given_to
from autodist.kernels._updated_units import UpdatedUnit
from autodist.resource_spec import Device
from autodist.strategies import PSSynchronizer, Strategy


@dataclass(frozen=True)
class ServedUnit(UpdatedUnit):
    """Those with one destination.

    Attributes:
        synchronizer: How they are synchronized; equal for all, local proxies aside.
        proxied: Names of the variables that have local proxies.
    """

    synchronizer: PSSynchronizer
    proxied: tuple[str, ...] = ()

    @property
    def destination(self) -> str:
        """The device that holds them."""
        return self.synchronizer.destination

    def station(self, host: str) -> str | None:
        """The device of a host through which its replicas send and fetch; None where each does so itself."""
        return next((name for name in self.synchronizer.transfer if Device.parse(name).host == host), None)


@dataclass(frozen=True)
class GradientPart:
    """One sender's part of a gradient: a replica's, or that of all replicas of a worker together.

    Attributes:
        rank: The worker.
        replica: Its number among the replicas of the worker; None for all together.
    """

    rank: int
    replica: int | None = None

    @property
    def label(self) -> str:
        """Part of the names of queues and nodes."""
        return f"{self.rank}" if self.replica is None else f"{self.rank}_{self.replica}"

    def tensors(self, point: SyncPoint) -> tuple[str, ...]:
        """The tensors that the sender's own worker finds in its graph."""
        return point.local if self.replica is None else point.parts[self.replica]


def units_of(graph: DistributedGraph, strategy: Strategy) -> list[ServedUnit]:
    """The units of a strategy, in the order of their variables in the graph."""
    slots = _slots(graph.variables)
    units: dict[str, ServedUnit] = {}
    for variable in graph.variables:
        if variable.coupled and min(variable.coupled) not in units:
            synchronizer = given_to(PSSynchronizer, strategy, variable.name)
            if synchronizer is not None:
                key = min(variable.coupled)
                proxied = tuple(name for name in variable.coupled if _has_proxy(strategy, name))
                units[key] = ServedUnit(key, variable.coupled, tuple(slots.get(key, ())), synchronizer, proxied)
    return list(units.values())


def parts_of(unit: ServedUnit, point: SyncPoint, layout: Layout) -> list[GradientPart]:
    """The senders of parts of a gradient to a unit's destination, in the order in which they are combined."""
    parts: list[GradientPart] = []
    for rank in layout.senders:
        count = len(layout.replicas[rank])
        apart = count > 1 and point.parts and unit.station(layout.hosts[rank]) is None
        parts.extend([GradientPart(rank, k) for k in range(count)] if apart else [GradientPart(rank)])
    return parts


def _has_proxy(strategy: Strategy, name: str) -> bool:
    synchronizer = given_to(PSSynchronizer, strategy, name)
    return synchronizer is not None and synchronizer.local_proxy


def _slots(variables: Iterable[Variable]) -> dict[str, list[str]]:
    """By first owner, the names of the slots."""
    slots: dict[str, list[str]] = {}
    for variable in variables:
        if variable.owners:
            slots.setdefault(min(variable.owners), []).append(variable.name)
    return slots
