"""What builders with all-reduce have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from autodist.strategies._communicators import installed_communicators
from autodist.strategies._shards import num_shards
from autodist.strategies._strategy import (
    AllReduceSynchronizer,
    Communicator,
    Order,
    ShardConfig,
    VariableConfig,
)

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.strategies._shards import Partition

__all__ = ["AnyCommunicator", "backward", "carrier_of", "chunks", "grouped"]

AnyCommunicator: TypeAlias = Literal["auto", "horovod", "collective"]


def carrier_of(communicator: AnyCommunicator) -> Communicator:
    """What carries the collectives; ``auto`` takes Horovod where it is built, else TensorFlow's own."""
    return installed_communicators()[0] if communicator == "auto" else communicator


def backward(graph: TrainingGraph) -> list[Variable]:
    """The trainable variables, that whose gradient exists first at the front."""
    return sorted(graph.trainable, key=lambda v: v.backward_order if v.backward_order >= 0 else len(graph.variables))


def chunks(
    variables: Iterable[Variable], chunk_size: int, partitions: Mapping[str, Partition | None] | None = None
) -> dict[str, tuple[int, ...]]:
    """Per variable the group of each shard: ``chunk_size`` shards that follow each other make one, from 0.

    Sparse gradients are gathered, not reduced, so each sparse shard is alone; and one buffer has one dtype.
    """
    split = partitions or {}
    numbers: dict[tuple[object, ...], int] = {}
    groups: dict[str, tuple[int, ...]] = {}
    index = 0
    for variable in variables:
        mine = []
        for _ in range(num_shards(split.get(variable.name))):
            key = ("sparse", index) if variable.is_sparse else ("dense", index // chunk_size, variable.dtype)
            mine.append(numbers.setdefault(key, len(numbers)))
            index += 1
        groups[variable.name] = tuple(mine)
    return groups


def grouped(
    variable: Variable,
    groups: tuple[int, ...],
    carrier: Communicator,
    *,
    order: Order = "ring",
    partition: Partition | None = None,
    compressor: str | None = None,
) -> VariableConfig:
    """The config of a variable whose shards travel in these groups."""
    shards = (ShardConfig(AllReduceSynchronizer(group, order, carrier), compressor) for group in groups)
    return VariableConfig(variable.name, tuple(shards), partition)
