"""On which machines the workers of a spec are."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from autodist.remote import Machine, machines_of
from autodist.resource_spec import ResourceSpec

_HERE = Machine("localhost", python=sys.executable)


def is_here(machine: Machine) -> bool:
    """Whether it is this machine, where workers are started without SSH."""
    return machine is _HERE


def machines_with_ranks(spec: ResourceSpec) -> dict[Machine, tuple[int, ...]]:
    """Return the machines of a spec with the ranks of their workers; this one is one, whatever names it has.

    Example:
        >>> spec = ResourceSpec.from_yaml("nodes: [{address: localhost}, {address: 127.0.0.1}]")
        >>> list(machines_with_ranks(spec).values())
        [(0, 1)]
    """
    found: dict[Machine, tuple[int, ...]] = {}
    for machine, ranks in machines_of(spec).items():
        place = _HERE if spec.hosts[ranks[0]].is_local else machine
        found[place] = tuple(sorted((*found.get(place, ()), *ranks)))
    return found


@dataclass(frozen=True)
class Position:
    """Where a worker is among the others.

    Attributes:
        node_rank: Its machine among all machines.
        local_rank: The worker among those of its machine.
        local_world_size: How many these are.
        cross_rank: The worker among those with the same local rank, one of each machine.
        cross_size: How many these are.
    """

    node_rank: int
    local_rank: int
    local_world_size: int
    cross_rank: int
    cross_size: int


def positions(machines: Mapping[Machine, tuple[int, ...]]) -> list[Position]:
    """Return the positions of all workers, by rank.

    Example:
        >>> positions({Machine("a"): (0, 1), Machine("b"): (2,)})[2]
        Position(node_rank=1, local_rank=0, local_world_size=1, cross_rank=1, cross_size=2)
    """
    found: dict[int, Position] = {}
    sizes = [len(ranks) for ranks in machines.values()]
    for node_rank, ranks in enumerate(machines.values()):
        for local_rank, rank in enumerate(ranks):
            with_it = [node for node, size in enumerate(sizes) if size > local_rank]
            cross = with_it.index(node_rank)
            found[rank] = Position(node_rank, local_rank, len(ranks), cross, len(with_it))
    return [found[rank] for rank in sorted(found)]
