"""The strategy of BytePS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._servers import (
    OnlyServers,
    balanced,
    fixed_partitions,
    server_devices,
    transfer_devices,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class BytePS(OnlyServers):
    """BytePS: parameter servers on all hosts, variables split into parts of a fixed size, hosts sum locally first.

    Reproduces BytePS (Jiang et al. 2020; thesis table 7.1: reduce and broadcast for all gradients, fixed-size
    partitioning, FP16, the local CPU as transfer device). Scalars and variables whose update is not elementwise stay
    whole. On one host nothing is split.

    Attributes:
        sync: Whether a step waits for the gradients of all replicas.
        staleness: How many steps the fastest worker may be ahead of the slowest, >= 0.
        local_proxy: Whether every worker reads dense variables from a cached copy of its own.
        part_bytes: Size of a part in bytes, >= 1; rows are never cut. BytePS' own default is 4 MB.
        max_shards: The most parts of one variable, >= 1; where ``part_bytes`` makes more, they are larger.
        compressor: Encoder of the gradients that it can encode; BytePS has ``FP16``.
    """

    name: ClassVar[str] = "BytePS"
    part_bytes: int = 4 * 1024 * 1024
    max_shards: int = 64
    compressor: str | None = None

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        partitions = fixed_partitions(graph, graph.trainable, spec, self.part_bytes, self.max_shards)
        destinations, transfer = balanced(graph, partitions, server_devices(spec), partitions), transfer_devices(spec)
        configs = {
            v.name: self.config(
                v,
                destinations[v.name],
                partition=partitions[v.name],
                transfer=transfer,
                compressor=encoder(v, self.compressor),
            )
            for v in graph.trainable
        }
        return assemble(self, graph, spec, configs, self.carrier)
