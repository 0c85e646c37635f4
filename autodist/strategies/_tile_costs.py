"""Bytes that travel in the middle of a step because variables are tiled, and work that every replica does whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from autodist.strategies._shard_messages import ShardMessages, host_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from autodist.graph import TrainingGraph, Variable
    from autodist.strategies._strategy import Strategy, VariableConfig


@dataclass(frozen=True)
class TileCosts:
    """Exchanges of activations that the computation waits for, and what each replica computes for all examples.

    Attributes:
        sent_bytes: Bytes that each host sends; infinite where replicas can't share the step so.
        waits: Number of exchanges that the computation waits for.
        kept_bytes: Bytes that each host keeps of gathered tensors: the others' parts as they arrive, and the whole.
        shards: Number of parts of tiled variables; in costs, each gets an even share of the above.
        parts: Number of replicas that share the step.
        everywhere: Names of variables whose gradient each replica has whole.
        repeated_flops: Operations of each replica besides its own part of the work, per example of the batch.
    """

    sent_bytes: float = 0.0
    waits: int = 0
    kept_bytes: float = 0.0
    shards: int = 1
    parts: int = 1
    everywhere: frozenset[str] = frozenset()
    repeated_flops: float = 0.0

    def added_to(self, message: ShardMessages) -> ShardMessages:
        """The messages of a shard, changed as tiles change them."""
        if message.synchronizer.tiled_for is not None:
            sent, waits, kept, flops = (
                value / self.shards for value in (self.sent_bytes, self.waits, self.kept_bytes, self.repeated_flops)
            )
            rebuilt = message.rebuilt_flops + flops
            kept += message.kept_bytes
            return message.changed(waited_bytes=sent, waits=waits, kept_bytes=kept, rebuilt_flops=rebuilt)
        if message.variable not in self.everywhere:
            return message
        # Each replica looks rows up for all examples, and needs no gradients of others.
        nothing = dict.fromkeys(
            ("summed_bytes", "gathered_bytes", "gradient_rows", "gathered_rows", "rebuilt_flops"), 0.0
        )
        return message.changed(**nothing, lookup_rows=message.lookup_rows * self.parts)


def tile_costs(strategy: Strategy, graph: TrainingGraph, batch_size: int) -> TileCosts:
    """The exchanges for a strategy's tiles; all zero for a step that is only described.

    Args:
        strategy: S.
        graph: G.
        batch_size: Examples in the global batch.

    Example:
        >>> from autodist.graph import TrainingGraph
        >>> from autodist.strategies import GraphConfig, Strategy
        >>> tile_costs(Strategy(GraphConfig(("a:CPU:0",), "tcp"), ()), TrainingGraph(None, (), (), (), ()), 32).waits
        0
    """
    tiled = [config for config in strategy.variables if _is_tiled(config)]
    if not tiled or graph.graph_def is None:
        return TileCosts()
    from autodist.graph.layouts import computed_whole, exchanges_of_groups, tile_exchanges

    shards = sum(len(config.shards) for config in tiled)
    dims = tiled_dims(strategy)
    groups = strategy.groups_of_replicas
    group = strategy.graph.replicas[: len(strategy.graph.replicas) // groups]
    found = tile_exchanges(graph, dims, len(group), max(1, batch_size // groups))
    between = exchanges_of_groups(graph, max(1, batch_size)) if groups > 1 else ()
    if found is None or between is None:
        return TileCosts(float("inf"), shards=shards)
    hosts = len(set(map(host_of, group)))
    sent_bytes = sum(one.sent_bytes(hosts) for one in found) + sum(one.sent_bytes(groups) for one in between)
    kept_bytes = sum(one.size_bytes + one.sent_bytes(hosts) for one in found if one.is_gathered)
    waits = TileCosts(sent_bytes, len(found) + len(between), kept_bytes, shards, len(group))
    if groups > 1:  # all gradients travel between the groups
        return waits
    whole = computed_whole(graph, dims, len(group), max(1, batch_size))
    everywhere = (variable.name for variable in graph.trainable if _has_gradient(variable, whole))
    repeated = _flops_of(graph, batch_size, whole) / batch_size
    return replace(waits, everywhere=frozenset(everywhere), repeated_flops=repeated)


def _has_gradient(variable: Variable, whole: Container[str]) -> bool:
    from autodist.graph import node_of

    marks = [node_of(tensor) for tensor in variable.gradient_tensors]
    return bool(marks) and all(mark in whole for mark in marks)


def _flops_of(graph: TrainingGraph, batch_size: int, nodes: Iterable[str]) -> float:
    """The floating-point operations of nodes, plus an equivalent for the bytes that they read and write."""
    work = work_of(graph, batch_size)
    return sum(work.get(name, 0.0) for name in nodes)


def work_of(graph: TrainingGraph, batch_size: int) -> Mapping[str, float]:
    """By node, its floating-point operations, plus an equivalent for the bytes that it reads and writes."""
    from autodist.cost.operations import DEVICE_FLOPS, MEMORY_BYTES_PER_S, node_costs

    kept, key = graph.analysis.derived, (work_of, batch_size)
    if key not in kept:
        costs = node_costs(graph, batch_size)
        kept[key] = {n: cost.flops + cost.bytes * (DEVICE_FLOPS / MEMORY_BYTES_PER_S) for n, cost in costs.items()}
    found: dict[str, float] = kept[key]
    return found


def tiled_dims(strategy: Strategy) -> dict[str, int]:
    """By variable that a strategy tiles, the dim that is cut."""
    tiled = (config for config in strategy.variables if _is_tiled(config))
    return {config.variable: dim for config in tiled if (dim := _cut_dim(config.partition)) is not None}


def _is_tiled(config: VariableConfig) -> bool:
    return any(shard.synchronizer.tiled_for is not None for shard in config.shards)


def _cut_dim(partition: tuple[int | tuple[int, ...], ...] | None) -> int | None:
    """The first dim that is cut."""
    return next((dim for dim, parts in enumerate(partition or ()) if parts != 1), None)
