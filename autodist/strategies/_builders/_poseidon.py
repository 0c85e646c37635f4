"""What Poseidon does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import carrier_of
from autodist.strategies._builders._factors import factors_are_cheaper
from autodist.strategies._builders._servers import (
    ServerBuilder,
    balanced,
    fixed_partitions,
    server_devices,
    transfer_devices,
)
from autodist.strategies._coupled import coupled_units
from autodist.strategies._strategy import BroadcastSynchronizer, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["Poseidon"]


@final
@dataclass(frozen=True)
class Poseidon(ServerBuilder):
    """Poseidon: for each variable what is cheaper, sufficient factors to every worker or parameter servers.

    Reproduces Poseidon (Zhang et al. 2017; thesis chapter 3 and table 7.1: parts of a fixed size on servers, factors
    by broadcast, the local CPU as transfer device). The choice is its BestScheme (thesis algorithm 2): a weight whose
    gradient is a product over the batch is broadcast if ``2 K (P1-1) (M+N) <= 2 M N (P1+P2-2) / P2``, with K pairs of
    factors per worker, P1 workers and P2 servers. ``sync``, ``staleness``, ``local_proxy`` concern what is on servers.

    Factors beside servers need Horovod or AutoDist's own library. Where Horovod isn't built, all variables go to
    servers, and the strategy says so in its ``builder``; so do coupled variables, unless all of them are cheaper as
    factors.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        batch_size: Examples of one worker in a step, >= 1, for K: the traced step does not know it.
        part_bytes: Size of a part on servers in bytes, >= 1; rows are never cut. Poseidon's own default is 2 MB.
        max_shards: The most parts of one variable, >= 1; where ``part_bytes`` makes more, they are larger.
        communicator: ``horovod`` refuses to do without it; with ``tcp``, AutoDist's own library, it also carries what
            servers get and give.

    """

    name: ClassVar[str] = "Poseidon"
    batch_size: int = 32
    part_bytes: int = 2 * 1024 * 1024
    max_shards: int = 64
    communicator: Literal["auto", "horovod", "tcp"] = "auto"

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        factored, remark = self._factored(graph, spec), ""
        carrier = carrier_of(self.communicator)
        if carrier == "collective" and 0 < len(factored) < len(graph.trainable):
            factored, remark = set(), "all variables on servers, for factors beside them need Horovod"
        served = [variable for variable in graph.trainable if variable.name not in factored]
        partitions = fixed_partitions(graph, served, spec, self.part_bytes, self.max_shards)
        homes, transfer = balanced(graph, partitions, server_devices(spec), partitions), transfer_devices(spec)
        configs = {
            v.name: self.config(v, homes[v.name], partition=partitions[v.name], transfer=transfer) for v in served
        }
        configs |= {name: VariableConfig.whole(name, BroadcastSynchronizer(carrier)) for name in factored}
        return assemble(self, graph, spec, configs, carrier, remark)

    def _factored(self, graph: TrainingGraph, spec: ResourceSpec) -> set[str]:
        cheaper = {
            variable.name
            for variable in graph.trainable
            if spec.world_size > 1
            and factors_are_cheaper(
                graph, variable, workers=spec.world_size, servers=spec.world_size, batch_size=self.batch_size
            )
        }
        units = ([variable.name for variable in unit] for unit in coupled_units(graph))
        return {name for unit in units if cheaper.issuperset(unit) for name in unit}
