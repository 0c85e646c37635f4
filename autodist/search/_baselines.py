"""Strategies that users know: what every search measures, and what every choice is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodist.errors import StrategyError
from autodist.search._room import Room
from autodist.strategies import Strategy, StrategyBuilder, check, get

if TYPE_CHECKING:
    from autodist.simulator import Domain

__all__ = ["known_strategies"]

_NAMES = (
    "AllReduce(communicator='tcp')",
    "PSLoadBalancing",
    "PartitionedPS",
    "Poseidon(communicator='tcp')",
    "Parallax(communicator='tcp')",
    "AllReduce(communicator='horovod')",
    "AllReduce(communicator='collective')",
    "Parallax(communicator='horovod')",
)
_NAMES_OF_SEVERAL_REPLICAS = (
    "PartitionedPS(stations=True)",
    "HierarchicalPS",
)
"""Worth it only where a host has several replicas, whose gradients it sums; the same as others elsewhere."""


def known_strategies(domain: Domain) -> Iterator[tuple[str, Strategy | str]]:
    """Strategies that users know, by name; or why they don't fit the graph, the cluster or its memory."""
    room = Room(domain)
    hosts = domain.spec.hosts
    has_several = len(hosts) > 1 and any(len(host.replica_devices) > 1 for host in hosts)
    for name in (*_NAMES, *(_NAMES_OF_SEVERAL_REPLICAS if has_several else ())):
        builder = get(name)
        assert isinstance(builder, StrategyBuilder)
        try:
            strategy = builder.build(domain.graph, domain.spec)
            check(strategy, domain.graph, domain.spec)
        except StrategyError as error:
            yield name, error.message
        else:
            yield name, room.why_not(strategy) or strategy
