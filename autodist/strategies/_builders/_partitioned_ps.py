"""Parameter servers with variables that are split by rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._alias import Alias
from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._partitions import (
    MIN_SHARD_BYTES,
    can_spread,
    largest_divisor,
    shard_limit,
    split,
)
from autodist.strategies._builders._servers import OnlyServers, balanced, server_devices, transfer_devices

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class PartitionedPS(OnlyServers):
    """Parameter servers; each variable is split by rows into as many even parts as there are servers, or fewer.

    Reproduces the partitioned parameter servers of AutoDist's evaluation (thesis 7.6). A variable gets the largest
    number of shards that divides its dim 0 and is at most ``max_shards``; without such a number (a prime dim) it stays
    whole, as do scalars, variables whose update is not elementwise, and those that are too small. Shards are placed
    like the variables of :class:`PSLoadBalancing`. On one host nothing is split.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        max_shards: The most shards of one variable, >= 1; None is the number of servers.
        min_shard_bytes: The least size of a shard in bytes, >= 0.
        stations: Whether hosts with several replicas sum their gradients on their CPU before these leave the host, as
            for :class:`HierarchicalPS`.
        even: Whether the parts are even; else they may differ by one row, as those of ``numpy.array_split``.
    """

    name: ClassVar[str] = "PartitionedPS"
    max_shards: int | None = None
    min_shard_bytes: int = MIN_SHARD_BYTES
    stations: bool = False
    even: bool = True

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        limit = shard_limit(self.max_shards, spec)
        partitions = {variable.name: self._partition(graph, variable, limit) for variable in graph.trainable}
        destinations = balanced(graph, partitions, server_devices(spec), partitions)
        transfer = transfer_devices(spec) if self.stations else ()
        configs = {
            v.name: self.config(v, destinations[v.name], partition=partitions[v.name], transfer=transfer)
            for v in graph.trainable
        }
        return assemble(self, graph, spec, configs, self.carrier)

    def _partition(self, graph: TrainingGraph, variable: Variable, limit: int) -> Partition | None:
        most = min(limit, variable.size_bytes // max(1, self.min_shard_bytes))
        if not can_spread(graph, variable) or most < 2:
            return None
        rows = variable.shape[0]
        return split(variable, largest_divisor(rows, most) if self.even else min(most, rows))


@final
@dataclass(frozen=True)
class UnevenPartitionedPS(Alias, OnlyServers):
    """Parameter servers; each variable is split by rows into as many parts as there are servers, whatever divides.

    The parts may differ by one row, as those of ``numpy.array_split``: so every server gets its share of a variable
    with a prime number of rows, too. It is :class:`PartitionedPS` with ``even=False``, and has its other parameters.
    """

    name: ClassVar[str] = "UnevenPartitionedPS"
    max_shards: int | None = None
    min_shard_bytes: int = MIN_SHARD_BYTES
    stations: bool = False

    @property
    def meant(self) -> PartitionedPS:
        """See the base class."""
        return PartitionedPS(**self.parameters, even=False)
