"""What a strategy says, as rows and totals, for people and for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from autodist.strategies._strategy import (
    AllReduceSynchronizer,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    Synchronizer,
    VariableConfig,
)

__all__ = ["Explanation", "ExplanationRow", "explain"]


@dataclass(frozen=True)
class ExplanationRow:
    """How one shard is synchronized.

    Attributes:
        variable: The variable's name.
        shard: Which shard it is, from 0; None for a variable that is not partitioned.
        synchronizer: ``PS``, ``AllReduce`` or ``Broadcast``, with what is not the default in brackets.
        where: The device that holds it, or ``every worker``.
        group: Number of its all-reduce group.
        communicator: What carries its collective.
        compressor: Its encoder and decoder.

    """

    variable: str
    shard: int | None
    synchronizer: str
    where: str
    group: int | None
    communicator: str | None
    compressor: str | None


@dataclass(frozen=True)
class Explanation:
    """A strategy, told shard by shard and in total.

    Attributes:
        id: The strategy's.
        builder: Who built it.
        replicas: The devices that hold a copy of the graph.
        communicator: What carries the batch size, the loss and the metrics.
        rows: One per shard, in the strategy's order.
        num_variables: Number of variables.
        num_shards_by_synchronizer: Number of shards of each kind.
        num_shards_by_destination: Number of shards on each parameter server.
        num_groups: Number of all-reduce groups.

    """

    id: str
    builder: str
    replicas: tuple[str, ...]
    communicator: str
    rows: tuple[ExplanationRow, ...]
    num_variables: int
    num_shards_by_synchronizer: Mapping[str, int]
    num_shards_by_destination: Mapping[str, int]
    num_groups: int


def explain(strategy: Strategy) -> Explanation:
    """Tell what the strategy says.

    Example:
        >>> from autodist.strategies import GraphConfig
        >>> config = VariableConfig.whole("w", PSSynchronizer("a:CPU:0", staleness=2))
        >>> explain(Strategy(GraphConfig(("a:CPU:0",), "queue"), (config,))).rows[0].synchronizer
        'PS (staleness=2)'

    """
    synchronizers = [shard.synchronizer for config in strategy.variables for shard in config.shards]
    homes = Counter(s.destination for s in synchronizers if isinstance(s, PSSynchronizer))
    return Explanation(
        id=strategy.id,
        builder=strategy.builder,
        replicas=strategy.graph.replicas,
        communicator=strategy.graph.communicator,
        rows=tuple(row for config in strategy.variables for row in _rows(config)),
        num_variables=len(strategy.variables),
        num_shards_by_synchronizer=dict(sorted(Counter(s.type for s in synchronizers).items())),
        num_shards_by_destination=dict(sorted(homes.items())),
        num_groups=len(strategy.groups),
    )


def _rows(config: VariableConfig) -> list[ExplanationRow]:
    whole = config.partition is None
    return [_row(config.variable, None if whole else index, shard) for index, shard in enumerate(config.shards)]


def _row(variable: str, index: int | None, shard: ShardConfig) -> ExplanationRow:
    synchronizer, where, group, communicator = shard.synchronizer, "every worker", None, None
    if isinstance(synchronizer, PSSynchronizer):
        where = synchronizer.destination
    if isinstance(synchronizer, AllReduceSynchronizer):
        group, communicator = synchronizer.group, synchronizer.communicator
    return ExplanationRow(variable, index, _told(synchronizer), where, group, communicator, shard.compressor)


def _told(synchronizer: Synchronizer) -> str:
    """Name the kind and whatever of it has no column of its own and is not the default."""
    told = []
    if isinstance(synchronizer, PSSynchronizer):
        told += [] if synchronizer.sync else ["async"]
        told += [f"staleness={synchronizer.staleness}"] if synchronizer.staleness else []
        told += ["local proxy"] if synchronizer.local_proxy else []
        told += [f"through {', '.join(synchronizer.transfer)}"] if synchronizer.transfer else []
    if isinstance(synchronizer, AllReduceSynchronizer):
        told += [] if synchronizer.order == "ring" else [synchronizer.order]
    return f"{synchronizer.type} ({', '.join(told)})" if told else synchronizer.type
