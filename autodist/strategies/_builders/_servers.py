"""Common parts of builders with parameter servers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Annotated, TypeAlias

from autodist.carriers import carrier_of_servers, installed_communicators, one_of
from autodist.registry import raise_mistakes
from autodist.strategies._builders._parameters import CheckedBuilder
from autodist.strategies._builders._partitions import can_spread, fixed_parts, shard_limit
from autodist.strategies._coupled import coupled_units
from autodist.strategies._shards import num_shards, shard_slices
from autodist.strategies._strategy import ShardConfig, VariableConfig
from autodist.strategies.synchronizers import PSSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition
    from autodist.strategies._strategy import Communicator, GraphCommunicator


OfServers: TypeAlias = Annotated[str, one_of(lambda carrier: carrier.has_streams, "auto")]


@dataclass(frozen=True)
class ServerBuilder(CheckedBuilder):
    """A builder that puts variables on parameter servers.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
    """

    sync: bool = True
    staleness: int = 0
    local_proxy: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.staleness and not self.sync:
            mistake = f"`staleness` is {self.staleness} with `sync` False, allowed: 0 (asynchronous training waits for "
            raise_mistakes(self.name, [f"{mistake}nobody, so nothing bounds it)"])

    def config(
        self,
        variable: Variable,
        destinations: tuple[str, ...],
        *,
        partition: Partition | None = None,
        transfer: tuple[str, ...] = (),
        compressor: str | None = None,
    ) -> VariableConfig:
        """The config of a variable whose shards live on these devices."""
        proxy = self.local_proxy and not variable.is_sparse  # only some rows of a table are read
        shards = (PSSynchronizer(home, self.sync, self.staleness, proxy, transfer=transfer) for home in destinations)
        return VariableConfig(variable.name, tuple(ShardConfig(shard, compressor) for shard in shards), partition)


@dataclass(frozen=True)
class OnlyServers(ServerBuilder):
    """A builder that puts all variables on parameter servers.

    Attributes:
        communicator: What carries messages to and from servers, and small state: ``tcp``, AutoDist's own library, which
            ``auto`` means as well.
    """

    communicator: OfServers = "auto"

    def _automatic(self, installed: Sequence[Communicator]) -> GraphCommunicator:
        return carrier_of_servers()

    @property
    def carrier(self) -> GraphCommunicator:
        """Its carrier here."""
        [found] = self.carriers(installed_communicators())
        return found


def server_devices(spec: ResourceSpec) -> tuple[str, ...]:
    """One server per host, on its first CPU, by rank."""
    return tuple(host.cpu_devices[0].name for host in spec.hosts)


def transfer_devices(spec: ResourceSpec) -> tuple[str, ...]:
    """The first CPU of each host with several replicas: where their gradients are summed before they leave the host."""
    return tuple(host.cpu_devices[0].name for host in spec.hosts if len(host.replica_devices) > 1)


@dataclass(frozen=True)
class PlacedUnit:
    """Values that are placed at once: a shard, or coupled variables.

    Attributes:
        size_bytes: Its size.
        shards: Names of variables and the numbers of their shards.
    """

    size_bytes: int
    shards: tuple[tuple[str, int], ...]


def spread(
    units: Iterable[PlacedUnit], servers: tuple[str, ...], loads: Mapping[str, int] | None = None
) -> dict[tuple[str, int], str]:
    """Where each shard lives: the largest unit first, each on the server that holds the fewest bytes so far.

    Ties are broken by name and shard, then by the order of the servers, so every process finds the same.

    Args:
        units: The units to place.
        servers: Devices.
        loads: By device, bytes that are there already.
    """
    filled = {server: (loads or {}).get(server, 0) for server in servers}
    destinations: dict[tuple[str, int], str] = {}
    for unit in sorted(units, key=lambda unit: (-unit.size_bytes, min(unit.shards))):
        server = min(servers, key=filled.__getitem__)
        filled[server] += unit.size_bytes
        destinations.update((shard, server) for shard in unit.shards)
    return destinations


def balanced(
    graph: TrainingGraph,
    names: Collection[str],
    servers: tuple[str, ...],
    partitions: Mapping[str, Partition | None] | None = None,
) -> dict[str, tuple[str, ...]]:
    """By variable the device of each shard, as :func:`spread` finds them; coupled variables are placed as one.

    Args:
        graph: G.
        names: The variables that live on servers.
        servers: Devices.
        partitions: By name; whole where it has none.
    """
    split = partitions or {}
    units: list[PlacedUnit] = []
    for unit in coupled_units(graph):
        members = [variable for variable in unit if variable.name in names]
        units += _units(members, split.get(members[0].name)) if members else []
    destinations = spread(units, servers)
    return {name: tuple(destinations[name, index] for index in range(num_shards(split.get(name)))) for name in names}


def _units(members: list[Variable], partition: Partition | None) -> list[PlacedUnit]:
    if partition is None:
        shards = tuple((variable.name, 0) for variable in members)
        return [PlacedUnit(sum(variable.size_bytes for variable in members), shards)]
    [variable] = members
    element_bytes = variable.size_bytes // prod(variable.shape)
    parts = shard_slices(partition, variable.shape)
    return [
        PlacedUnit(part.num_elements * element_bytes, ((variable.name, index),)) for index, part in enumerate(parts)
    ]


def fixed_partitions(
    graph: TrainingGraph, variables: Iterable[Variable], spec: ResourceSpec, part_bytes: int, max_shards: int
) -> dict[str, Partition | None]:
    """By name, the partition of each variable into parts of a fixed size; on one host all stay whole."""
    limit = shard_limit(max_shards, spec)
    return {
        variable.name: fixed_parts(variable, part_bytes, limit) if can_spread(graph, variable) and limit > 1 else None
        for variable in variables
    }
