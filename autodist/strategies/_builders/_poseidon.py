"""The strategy of Poseidon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import BesideServers, carrier_of
from autodist.strategies._builders._factored_variables import factors_are_cheaper, has_factors
from autodist.strategies._builders._servers import (
    ServerBuilder,
    balanced,
    fixed_partitions,
    server_devices,
    transfer_devices,
)
from autodist.strategies._coupled import coupled_units
from autodist.strategies._strategy import VariableConfig
from autodist.strategies.synchronizers import BroadcastSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

_SERVED = "all variables on servers"
_UNKNOWN = f"{_SERVED}, because the number of examples of a batch is unknown: give `batch_size`"


@final
@dataclass(frozen=True)
class Poseidon(ServerBuilder):
    """Poseidon: for each variable what is cheaper, sufficient factors to every worker or parameter servers.

    Reproduces Poseidon (Zhang et al. 2017; thesis chapter 3 and table 7.1: parts of a fixed size on servers, factors
    by broadcast, the local CPU as transfer device). The choice is its BestScheme (thesis algorithm 2): a weight whose
    gradient is a product over the batch is broadcast if ``2 K (P1-1) (M+N) <= 2 M N (P1+P2-2) / P2``, with K pairs of
    factors per worker, P1 workers and P2 servers, here in bytes: no worker ever sends and gets more of a variable than
    with servers. ``sync``, ``staleness``, ``local_proxy`` concern what is on servers.

    Factors alongside servers need AutoDist's own library or Horovod. Where neither is built, all variables go to
    servers, and the strategy says so in its ``builder``; so do coupled variables, unless all of them are cheaper as
    factors.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        batch_size: K, the examples of one worker in a step, >= 1. None takes those of the worker that has the most of
            the graph's batch; if its size is unknown, all variables go to servers. Steps that train the
            same variables with batches of other sizes need one K.
        part_bytes: Size of a part on servers in bytes, >= 1; rows are never cut. Poseidon's own default is 2 MB.
        max_shards: The most parts of one variable, >= 1; where ``part_bytes`` makes more, they are larger.
        communicator: The carrier of factors; ``auto`` takes the fastest that is installed. Messages to and from servers
            always use ``tcp``, AutoDist's own library.
    """

    name: ClassVar[str] = "Poseidon"
    batch_size: int | None = None
    part_bytes: int = 2 * 1024 * 1024
    max_shards: int = 64
    communicator: BesideServers = "auto"

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        examples, carrier = self._examples(graph, spec), carrier_of(self)
        factored = set() if examples is None else self._factored(graph, spec, examples)
        remark = _UNKNOWN if examples is None and any(has_factors(graph, v) for v in graph.trainable) else ""
        served = [variable for variable in graph.trainable if variable.name not in factored]
        partitions = fixed_partitions(graph, served, spec, self.part_bytes, self.max_shards)
        destinations, transfer = balanced(graph, partitions, server_devices(spec), partitions), transfer_devices(spec)
        configs = {
            v.name: self.config(v, destinations[v.name], partition=partitions[v.name], transfer=transfer)
            for v in served
        }
        configs |= {name: VariableConfig.whole(name, BroadcastSynchronizer(carrier)) for name in factored}
        return assemble(self, graph, spec, configs, carrier, remark)

    def _examples(self, graph: TrainingGraph, spec: ResourceSpec) -> int | None:
        """K: the examples of the worker that has the most; None if unknown."""
        if self.batch_size is not None or graph.batch_size is None:
            return self.batch_size
        of_replica = -(-graph.batch_size // len(spec.replicas))
        return of_replica * max(len(host.replica_devices) for host in spec.hosts)

    def _factored(self, graph: TrainingGraph, spec: ResourceSpec, examples: int) -> set[str]:
        cheaper = {
            variable.name
            for variable in graph.trainable
            if spec.world_size > 1
            and factors_are_cheaper(
                graph, variable, workers=spec.world_size, servers=spec.world_size, examples=examples
            )
        }
        units = ([variable.name for variable in unit] for unit in coupled_units(graph))
        return {name for unit in units if cheaper.issuperset(unit) for name in unit}
