"""The strategy of Parallax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import (
    BesideServers,
    carrier_of,
    chunks,
    grouped,
    in_backward_order,
)
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._partitions import MIN_SHARD_BYTES, can_spread, shard_limit, split
from autodist.strategies._builders._servers import ServerBuilder, balanced, server_devices, transfer_devices
from autodist.strategies._coupled import coupled_units

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition
    from autodist.strategies._strategy import Strategy, VariableConfig


@final
@dataclass(frozen=True)
class Parallax(ServerBuilder):
    """Parallax: parameter servers for sparse variables, split by rows, and all-reduce for dense ones.

    Reproduces Parallax (Kim et al. 2019; thesis table 7.1: gather and scatter for sparse gradients and all-reduce for
    dense ones, partitioned sparse variables, the local CPU as transfer device for shared variables). A sparse variable
    is split into nearly even parts of rows, one per server. A dense variable that is coupled with a sparse one goes to
    its server. ``sync``, ``staleness``, ``local_proxy`` concern the variables on servers.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        chunk_size: How many dense variables a group holds at most, >= 1.
        max_shards: The most shards of one variable, >= 1; None is the number of servers.
        min_shard_bytes: The least size of a shard in bytes, >= 0.
        communicator: The carrier of all-reduces; ``auto`` takes the fastest that is installed. Messages to and from
            servers always use ``tcp``, AutoDist's own library.
        compressor: Encoder of the gradients that it can encode, such as ``FP16``; None sends all as they are.
    """

    name: ClassVar[str] = "Parallax"
    chunk_size: int = 128
    max_shards: int | None = None
    min_shard_bytes: int = MIN_SHARD_BYTES
    communicator: BesideServers = "auto"
    compressor: str | None = None

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        units = coupled_units(graph)
        served = {v.name for unit in units for v in unit if any(member.is_sparse for member in unit)}
        carrier = carrier_of(self)
        dense = [variable for variable in in_backward_order(graph) if variable.name not in served]
        groups = chunks(dense, self.chunk_size)
        configs = {
            v.name: grouped(v, groups[v.name], carrier, compressor=encoder(v, self.compressor)) for v in dense
        }  # fmt: skip
        return assemble(self, graph, spec, {**configs, **self._on_servers(graph, spec, served)}, carrier)

    def _on_servers(self, graph: TrainingGraph, spec: ResourceSpec, names: set[str]) -> dict[str, VariableConfig]:
        limit, transfer = shard_limit(self.max_shards, spec), transfer_devices(spec)
        partitions = {name: self._partition(graph, graph.variable(name), limit) for name in names}
        destinations = balanced(graph, names, server_devices(spec), partitions)
        return {
            name: self.config(
                graph.variable(name),
                destinations[name],
                partition=partitions[name],
                transfer=transfer,
                compressor=encoder(graph.variable(name), self.compressor, served=True),
            )
            for name in names
        }

    def _partition(self, graph: TrainingGraph, variable: Variable, limit: int) -> Partition | None:
        most = min(limit, variable.size_bytes // max(1, self.min_shard_bytes))
        if not variable.is_sparse or not can_spread(graph, variable) or most < 2:
            return None
        return split(variable, min(most, variable.shape[0]))
