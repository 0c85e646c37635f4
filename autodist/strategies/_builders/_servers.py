"""What builders with parameter servers have in common."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from autodist.registry import raise_mistakes
from autodist.strategies._builders._parameters import CheckedBuilder
from autodist.strategies._builders._partitions import can_split, fixed_parts, shard_limit
from autodist.strategies._coupled import coupled_units
from autodist.strategies._shards import shard_slices
from autodist.strategies._strategy import PSSynchronizer, ShardConfig, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition

__all__ = ["ServerBuilder", "balanced", "fixed_partitions", "server_devices", "transfer_devices"]


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
        homes: tuple[str, ...],
        *,
        partition: Partition | None = None,
        transfer: tuple[str, ...] = (),
        compressor: str | None = None,
    ) -> VariableConfig:
        """The config of a variable whose shards live on these devices."""
        proxy = self.local_proxy and not variable.is_sparse  # of a table only some rows are read
        shards = (PSSynchronizer(home, self.sync, self.staleness, proxy, transfer=transfer) for home in homes)
        return VariableConfig(variable.name, tuple(ShardConfig(shard, compressor) for shard in shards), partition)


def server_devices(spec: ResourceSpec) -> tuple[str, ...]:
    """One server per host, on its first CPU, by rank."""
    return tuple(host.cpu_devices[0].name for host in spec.hosts)


def transfer_devices(spec: ResourceSpec) -> tuple[str, ...]:
    """The first CPU of each host with several replicas: where their gradients are summed before they leave the host."""
    return tuple(host.cpu_devices[0].name for host in spec.hosts if len(host.replica_devices) > 1)


def balanced(
    graph: TrainingGraph,
    names: Collection[str],
    servers: tuple[str, ...],
    partitions: Mapping[str, Partition | None] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Where each shard lives: the largest first, each on the server that holds the fewest bytes so far.

    Coupled variables are placed as one. Ties go by name and shard, then by the order of the servers, so every process
    finds the same.

    Args:
        graph: G.
        names: The variables that live on servers.
        servers: Devices.
        partitions: By name; whole where it has none.

    Returns:
        By variable, the device of each shard.

    """
    split = partitions or {}
    units: list[tuple[int, str, int, tuple[str, ...]]] = []
    for unit in coupled_units(graph):
        members = [variable for variable in unit if variable.name in names]
        units += _sized(members, split.get(members[0].name)) if members else []
    loads = dict.fromkeys(servers, 0)
    homes: dict[str, dict[int, str]] = {}
    for size_bytes, _, shard, members_names in sorted(units, key=lambda unit: (-unit[0], unit[1], unit[2])):
        server = min(servers, key=loads.__getitem__)
        loads[server] += size_bytes
        for name in members_names:
            homes.setdefault(name, {})[shard] = server
    return {name: tuple(shards[index] for index in sorted(shards)) for name, shards in homes.items()}


def _sized(members: list[Variable], partition: Partition | None) -> list[tuple[int, str, int, tuple[str, ...]]]:
    """Size, name for ties, shard and names of what is placed at once."""
    names = tuple(variable.name for variable in members)
    if partition is None:
        return [(sum(variable.size_bytes for variable in members), min(names), 0, names)]
    [variable] = members
    element_bytes = variable.size_bytes // prod(variable.shape)
    shards = shard_slices(partition, variable.shape)
    return [(shard.num_elements * element_bytes, names[0], index, names) for index, shard in enumerate(shards)]


def fixed_partitions(
    graph: TrainingGraph, variables: Iterable[Variable], spec: ResourceSpec, part_bytes: int, max_shards: int
) -> dict[str, Partition | None]:
    """By name, the partition of each variable into parts of a fixed size; on one host all stay whole."""
    limit = shard_limit(max_shards, spec)
    return {
        variable.name: fixed_parts(variable, part_bytes, limit) if can_split(graph, variable) and limit > 1 else None
        for variable in variables
    }
