"""Differences between two strategies: aspect by aspect, and in bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autodist.errors import UsageError
from autodist.strategies._strategy import ShardConfig, Strategy, VariableConfig
from autodist.strategies._traffic import traffic
from autodist.strategies.checks import require_types

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies.synchronizers import Synchronizer


@dataclass(frozen=True)
class Difference:
    """One aspect in which two strategies differ.

    Attributes:
        variable: The variable's name; None if it is about the whole graph.
        shard: The shard's number, from 0; None if it is about the whole variable.
        aspect: A key of the strategy's JSON, ``synchronizer`` for its kind, or ``variable`` if one
            strategy does not have it.
        a: The value in the first strategy; None if it has none.
        b: The value in the second one, likewise.
    """

    variable: str | None
    shard: int | None
    aspect: str
    a: str | None
    b: str | None


@dataclass(frozen=True)
class StrategyDiff:
    """Differences between the strategies ``a`` and ``b``.

    Attributes:
        id_a: Identity of ``a``.
        id_b: Identity of ``b``.
        builder_a: The builder of ``a``; for people only.
        builder_b: The builder of ``b``.
        differences: The differences, in the order of ``a``; none if both say the same.
        sent_a: By host, bytes that it sends per step under ``a``; None without a graph.
        sent_b: The same under ``b``.
    """

    id_a: str
    id_b: str
    builder_a: str
    builder_b: str
    differences: tuple[Difference, ...]
    sent_a: Mapping[str, float] | None = None
    sent_b: Mapping[str, float] | None = None

    @property
    def is_same(self) -> bool:
        """Whether both strategies say the same, whatever built them."""
        return not self.differences


def diff(
    a: Strategy,
    b: Strategy,
    graph: TrainingGraph | None = None,
    spec: ResourceSpec | None = None,
    *,
    batch_size: int | None = None,
    rows: Mapping[str, int] | None = None,
) -> StrategyDiff:
    """Tell what differs between two strategies; with a graph and a cluster also what each of them sends there.

    The order of variables and the numbers of groups count, as they do for the id. Where the shards of a variable can't
    be compared one by one, because the partition differs, only the partition is named.

    Args:
        a: One strategy.
        b: The other one.
        graph: G, for totals in bytes.
        spec: D; goes together with the graph.
        batch_size: As for :func:`traffic`.
        rows: As for :func:`traffic`.

    Raises:
        StrategyError: Parts of a strategy have wrong types.
        UsageError: A graph without a spec, or a spec without a graph.

    Example:
        >>> from autodist.strategies import GraphConfig, PSSynchronizer
        >>> one, other = (
        ...     Strategy(GraphConfig(("a:CPU:0",), "tcp"), (VariableConfig.whole("w", PSSynchronizer(home)),))
        ...     for home in ("a:CPU:0", "b:CPU:0")
        ... )
        >>> diff(one, other).differences
        (Difference(variable='w', shard=None, aspect='destination', a='a:CPU:0', b='b:CPU:0'),)
        >>> diff(one, one).is_same
        True
    """
    require_types(a, b)
    if (graph is None) != (spec is None):
        missing = "spec" if spec is None else "graph"
        raise UsageError(f"there is no {missing}: what a strategy costs depends on a graph and a spec together")
    sent: list[Mapping[str, float] | None] = [None, None]
    if graph is not None and spec is not None:
        sent = [traffic(s, graph, spec, batch_size=batch_size, rows=rows).sent for s in (a, b)]
    return StrategyDiff(a.id, b.id, a.builder, b.builder, tuple(_differences(a, b)), sent[0], sent[1])


def _differences(a: Strategy, b: Strategy) -> Iterator[Difference]:
    yield from _fields(None, None, a.graph, b.graph)
    ours, theirs = ({config.variable: config for config in s.variables} for s in (a, b))
    for name in dict.fromkeys((*ours, *theirs)):
        yield from _of_variable(name, ours.get(name), theirs.get(name))
    common = [[n for n in one if n in other] for one, other in ((ours, theirs), (theirs, ours))]
    if common[0] != common[1]:
        yield Difference(None, None, "order of variables", ", ".join(common[0]), ", ".join(common[1]))
    if len(a.variables) > len(ours) or len(b.variables) > len(theirs):
        yield from _doubled(a, b)


def _doubled(a: Strategy, b: Strategy) -> Iterator[Difference]:
    """Variables that a strategy (which verification refuses) names several times."""
    if a.variables != b.variables:
        counts = (str(len(s.variables)) for s in (a, b))
        yield Difference(None, None, "number of configs", *counts)


def _of_variable(name: str, a: VariableConfig | None, b: VariableConfig | None) -> Iterator[Difference]:
    if a is None or b is None:
        yield Difference(name, None, "variable", None if a is None else "present", None if b is None else "present")
        return
    if a.partition != b.partition or len(a.shards) != len(b.shards):
        yield Difference(name, None, "partition", _partition(a), _partition(b))
        return
    for number, (one, other) in enumerate(zip(a.shards, b.shards, strict=True)):
        yield from _of_shard(name, None if a.partition is None else number, one, other)


def _of_shard(name: str, number: int | None, a: ShardConfig, b: ShardConfig) -> Iterator[Difference]:
    if a.synchronizer.type != b.synchronizer.type:
        yield Difference(name, number, "synchronizer", _told(a.synchronizer), _told(b.synchronizer))
    else:
        yield from _fields(name, number, a.synchronizer, b.synchronizer)
    if a.compressor != b.compressor:
        yield Difference(name, number, "compressor", a.compressor or "none", b.compressor or "none")


def _fields(variable: str | None, shard: int | None, a: Any, b: Any) -> Iterator[Difference]:
    for field in dataclasses.fields(a):
        one, other = getattr(a, field.name), getattr(b, field.name)
        if one != other:
            yield Difference(variable, shard, field.name, *(None if v is None else _text(v) for v in (one, other)))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _told(synchronizer: Synchronizer) -> str:
    """The synchronizer's kind, and its device or group."""
    number = synchronizer.group_number
    detail = synchronizer.home if number is None else f"group {number}"
    return synchronizer.type if detail is None else f"{synchronizer.type} ({detail})"


def _partition(config: VariableConfig) -> str:
    if config.partition is None:
        return "whole" if len(config.shards) == 1 else f"whole, {len(config.shards)} shards"
    parts = (str(e) if isinstance(e, int) else f"({'+'.join(map(str, e))})" for e in config.partition)
    return f"{' x '.join(parts)}, {len(config.shards)} shards"
