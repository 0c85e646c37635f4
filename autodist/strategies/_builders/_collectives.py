"""Common parts of builders with all-reduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, TypeAlias

from autodist.carriers import installed_communicators, one_of
from autodist.strategies._shards import num_shards
from autodist.strategies._strategy import Communicator, ShardConfig, VariableConfig
from autodist.strategies.synchronizers import AllReduceSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.strategies._builders._base import StrategyBuilder
    from autodist.strategies._shards import Partition

AnyCommunicator: TypeAlias = Annotated[str, one_of(lambda carrier: True, "auto")]
BesideServers: TypeAlias = Annotated[str, one_of(lambda carrier: carrier.fits_servers, "auto")]

CHUNK_BYTES = 4 * 2**20
"""Bytes of a group: a larger one keeps the network waiting for its last gradient, a smaller one costs messages."""


def carrier_of(builder: StrategyBuilder) -> Communicator:
    """The carrier of a builder's collectives here."""
    [found] = builder.carriers(installed_communicators())
    return found


def in_backward_order(graph: TrainingGraph) -> list[Variable]:
    """The trainable variables in the order in which their gradients become ready."""
    return sorted(graph.trainable, key=lambda v: v.backward_order if v.backward_order >= 0 else len(graph.variables))


def chunks(
    variables: Iterable[Variable],
    chunk_size: int,
    partitions: Mapping[str, Partition | None] | None = None,
    chunk_bytes: int = CHUNK_BYTES,
) -> dict[str, tuple[int, ...]]:
    """Per variable the group of each shard, from 0: consecutive shards form one, up to a number and a size.

    Sparse gradients are gathered, not reduced, so each sparse shard is alone; and one buffer has one dtype.
    """
    split = partitions or {}
    numbers: dict[tuple[object, ...], int] = {}
    groups: dict[str, tuple[int, ...]] = {}
    chunk = count = size_bytes = 0
    for variable in variables:
        mine = []
        shards = num_shards(split.get(variable.name))
        shard_bytes = 0 if variable.is_sparse else variable.size_bytes // shards
        for shard in range(shards):
            if count == chunk_size or (size_bytes and size_bytes + shard_bytes > chunk_bytes):
                chunk, count, size_bytes = chunk + 1, 0, 0
            count, size_bytes = count + 1, size_bytes + shard_bytes
            key = ("sparse", variable.name, shard) if variable.is_sparse else ("dense", chunk, variable.dtype)
            mine.append(numbers.setdefault(key, len(numbers)))
        groups[variable.name] = tuple(mine)
    return groups


def grouped(
    variable: Variable,
    groups: tuple[int, ...],
    carrier: Communicator,
    *,
    partition: Partition | None = None,
    compressor: str | None = None,
    staleness: int | None = None,
) -> VariableConfig:
    """The config of a variable whose shards travel in these groups."""
    shards = (ShardConfig(AllReduceSynchronizer(group, carrier, staleness or None), compressor) for group in groups)
    return VariableConfig(variable.name, tuple(shards), partition)
