"""Strategies that users know: every search measures them, and every choice is compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.errors import SpaceEmpty, StrategyError
from autodist.search._memory_filter import MemoryFilter
from autodist.search._with_tiles_instead import can_tile_steps
from autodist.search.tilings import Tiled
from autodist.strategies import Strategy, StrategyBuilder, StrategyLike, check, get

if TYPE_CHECKING:
    from autodist.simulator import Domain

_NAMES_OF_SEVERAL_REPLICAS = (
    "PartitionedPS(stations=True)",
    "HierarchicalPS",
)
"""Builders for hosts with several replicas, whose gradients they sum; elsewhere they equal others."""


def _names() -> Iterator[str]:
    """The names of all for the fastest carrier, then those of the all-reduce and Parallax for each other carrier."""
    fastest, *others = carriers.carriers()
    yield f"AllReduce(communicator={fastest.name!r})"
    yield from ("PSLoadBalancing", "PartitionedPS")
    yield from (f"{system}(communicator={fastest.name!r})" for system in ("Poseidon", "Parallax"))
    yield from (f"AllReduce(communicator={carrier.name!r})" for carrier in others)
    yield from (f"Parallax(communicator={carrier.name!r})" for carrier in others if carrier.fits_servers)


def known_strategies(
    domain: Domain, *, tiles: bool = False, also: Iterable[StrategyLike] = ()
) -> Iterator[tuple[str, Strategy | str]]:
    """Strategies that users know, by name; or why they don't fit the graph, the cluster or its memory.

    Args:
        domain: The graph and the cluster that they are for.
        tiles: Whether ``Tiled`` is included if it tiles anything; finding out takes seconds for a large step.
        also: Further ones, as :func:`autodist.strategies.get` takes them.

    Raises:
        StrategyError: One of the further ones is unknown, or its file can't be read.
    """
    room = MemoryFilter(domain)
    hosts = domain.spec.hosts
    has_several = len(hosts) > 1 and any(len(host.replica_devices) > 1 for host in hosts)
    for name in (*_names(), *(_NAMES_OF_SEVERAL_REPLICAS if has_several else ())):
        yield name, _fitting(get(name), domain, room)
    if tiles and can_tile_steps(domain):
        tiled = _fitting(Tiled(), domain, room)
        if isinstance(tiled, str) or tiled.has_tiles:
            yield Tiled.name, tiled
    for given in also:
        yield _name_of(given), _fitting(get(given), domain, room)


def _name_of(given: StrategyLike) -> str:
    return given.builder or given.id if isinstance(given, Strategy) else str(given)


def _fitting(wanted: StrategyBuilder | Strategy, domain: Domain, room: MemoryFilter) -> Strategy | str:
    """The strategy, or that of a builder; or a text that says why it does not fit."""
    try:
        strategy = wanted if isinstance(wanted, Strategy) else wanted.build(domain.graph, domain.spec)
        missing = _missing(strategy)
        if missing:
            return f"{missing} is not installed; `autodist env` says what to do"
        check(strategy, domain.graph, domain.spec)
    except (SpaceEmpty, StrategyError) as error:
        return error.message
    return room.why_not(strategy) or strategy


def _missing(strategy: Strategy) -> str:
    """A text with a strategy's carriers that this machine does not have; empty if it has all."""
    installed = carriers.installed_communicators()
    return ", ".join(one.title for one in carriers.carriers() if one.name in {*strategy.carriers} - {*installed})
