"""What travels in the middle of a step's computation, because variables are tiled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autodist.strategies._shard_messages import ShardMessages, host_of

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.strategies._strategy import Strategy, VariableConfig

__all__ = ["TileWaits", "tile_waits", "tiled_dims"]


@dataclass(frozen=True)
class TileWaits:
    """Exchanges of activations that the computation waits for.

    Attributes:
        sent_bytes: What each host sends; infinite where replicas can't share the step so.
        waits: How often.
        kept_bytes: What each host has of tensors that are gathered: parts of others as they come, and the whole.
        shards: Parts of tiled variables, of which each has an even share of this in costs.

    """

    sent_bytes: float = 0.0
    waits: int = 0
    kept_bytes: float = 0.0
    shards: int = 1

    def shared_by(self, message: ShardMessages) -> ShardMessages:
        """The messages of one of the shards, with its share."""
        sent, waits, kept = (value / self.shards for value in (self.sent_bytes, self.waits, self.kept_bytes))
        return replace(message, waited_bytes=sent, waits=waits, kept_bytes=kept)


def tile_waits(strategy: Strategy, graph: TrainingGraph, batch_size: int) -> TileWaits:
    """What a strategy's tiles make workers exchange; nothing is known of a step that is only described.

    Args:
        strategy: S.
        graph: G.
        batch_size: Examples in the global batch.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> from autodist.strategies import GraphConfig, Strategy
        >>> tile_waits(Strategy(GraphConfig(("a:CPU:0",), "tcp"), ()), TrainingGraph(None, (), (), (), ()), 32)
        TileWaits(sent_bytes=0.0, waits=0, kept_bytes=0.0, shards=1)

    """
    tiled = [config for config in strategy.variables if _is_tiled(config)]
    if not tiled or graph.graph_def is None:
        return TileWaits()
    from autodist.graph.layouts import tile_exchanges

    shards = sum(len(config.shards) for config in tiled)
    dims = tiled_dims(strategy)
    groups = strategy.groups_of_replicas
    group = strategy.graph.replicas[: len(strategy.graph.replicas) // groups]
    found = tile_exchanges(graph, dims, len(group), max(1, batch_size // groups))
    if found is None:
        return TileWaits(float("inf"), shards=shards)
    hosts = len(set(map(host_of, group)))
    kept = sum(one.size_bytes + one.sent_bytes(hosts) for one in found if one.is_gathered)
    return TileWaits(sum(one.sent_bytes(hosts) for one in found), len(found), kept, shards)


def tiled_dims(strategy: Strategy) -> dict[str, int]:
    """By variable that a strategy tiles, the dim that is cut."""
    tiled = (config for config in strategy.variables if _is_tiled(config))
    return {config.variable: dim for config in tiled if (dim := _cut_dim(config.partition)) is not None}


def _is_tiled(config: VariableConfig) -> bool:
    return any(shard.synchronizer.tiled_for is not None for shard in config.shards)


def _cut_dim(partition: tuple[int | tuple[int, ...], ...] | None) -> int | None:
    """The first dim that is cut."""
    return next((dim for dim, parts in enumerate(partition or ()) if parts != 1), None)
