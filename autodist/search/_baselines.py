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
    "AllReduce(communicator='horovod')",
    "AllReduce(communicator='collective')",
    "PSLoadBalancing",
    "PartitionedPS",
    "Parallax",
)


def known_strategies(domain: Domain) -> Iterator[tuple[str, Strategy | str]]:
    """Strategies that users know, by name; or why they don't fit the graph, the cluster or its memory."""
    room = Room(domain)
    for name in _NAMES:
        builder = get(name)
        assert isinstance(builder, StrategyBuilder)
        try:
            strategy = builder.build(domain.graph, domain.spec)
            check(strategy, domain.graph, domain.spec)
        except StrategyError as error:
            yield name, error.message
        else:
            yield name, room.why_not(strategy) or strategy
