"""All-reduce of variables that are split."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._alias import Alias
from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import AnyCommunicator, carrier_of, chunks, grouped, in_backward_order
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._parameters import CheckedBuilder
from autodist.strategies._builders._partitions import (
    MIN_SHARD_BYTES,
    can_split,
    largest_divisor,
    shard_limit,
    split,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._shards import Partition
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class PartitionedAR(CheckedBuilder):
    """All-reduce; each variable is split by rows into even parts, which travel in groups like variables.

    A large variable need not wait for a buffer of its size: its parts are reduced one after another. A variable gets
    the largest number of shards that divides its dim 0 and is at most ``max_shards``; scalars, variables whose update
    is not elementwise, and those that are too small stay whole. On one host nothing is split.

    Attributes:
        chunk_size: How many shards a group holds at most, >= 1.
        communicator: The carrier of the collectives; ``auto`` takes the fastest that is installed.
        max_shards: The most shards of one variable, >= 1; None is the number of hosts.
        min_shard_bytes: The least size of a shard in bytes, >= 0.
        compressor: Encoder of the gradients that it can encode, such as ``FP16``; None sends all as they are.
        seed: Seed of the dims along which variables are split, each drawn among those that it can be split along; None
            splits all by rows.
    """

    name: ClassVar[str] = "PartitionedAR"
    chunk_size: int = 128
    communicator: AnyCommunicator = "auto"
    max_shards: int | None = None
    min_shard_bytes: int = MIN_SHARD_BYTES
    compressor: str | None = None
    seed: int | None = None

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        carrier, limit = carrier_of(self), shard_limit(self.max_shards, spec)
        partitions = {variable.name: self._partition(graph, variable, limit) for variable in graph.trainable}
        groups = chunks(in_backward_order(graph), self.chunk_size, partitions)
        configs = {
            v.name: grouped(
                v, groups[v.name], carrier, partition=partitions[v.name], compressor=encoder(v, self.compressor)
            )
            for v in graph.trainable
        }
        return assemble(self, graph, spec, configs, carrier)

    def _partition(self, graph: TrainingGraph, variable: Variable, limit: int) -> Partition | None:
        most = min(limit, variable.size_bytes // max(1, self.min_shard_bytes))
        dim = self._dim(graph, variable) if most > 1 else None
        return None if dim is None else split(variable, largest_divisor(variable.shape[dim], most), dim)

    def _dim(self, graph: TrainingGraph, variable: Variable) -> int | None:
        if self.seed is None:
            return 0 if can_split(graph, variable) else None
        dims = [dim for dim in range(len(variable.shape)) if can_split(graph, variable, dim)]
        return random.Random(f"{self.seed}/{variable.name}").choice(dims) if dims else None


@final
@dataclass(frozen=True)
class RandomAxisPartitionAR(Alias, CheckedBuilder):
    """All-reduce; each variable is split along a random dim, a sparse one by rows.

    A sample of the strategy space (thesis 8) rather than a system: the dim is drawn, for each variable on its own, from
    ``seed`` and the variable's name, among those that can be split. It is :class:`PartitionedAR` with a ``seed``, and
    has its other parameters.

    Attributes:
        seed: The same seed gives the same dims, in every process.
    """

    name: ClassVar[str] = "RandomAxisPartitionAR"
    chunk_size: int = 128
    communicator: AnyCommunicator = "auto"
    max_shards: int | None = None
    min_shard_bytes: int = MIN_SHARD_BYTES
    compressor: str | None = None
    seed: int = 0

    @property
    def meant(self) -> PartitionedAR:
        """See the base class."""
        return PartitionedAR(**self.parameters)
