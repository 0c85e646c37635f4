"""Partition: each shard of a variable becomes a variable of its own (thesis 7.3.2).

A shard has its own slots, its own gradients and its own copy of the update; S gives it a config of its own, so that all
later kernels know whole variables only. All other nodes still see the whole: reads are concatenated, and lookups ask
each shard for the rows that it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from autodist.errors import StrategyError
from autodist.graph import Role, ShardOrigin, TrainingGraph, Variable
from autodist.kernels._base import Fact, Preparation
from autodist.kernels.shard._variable_sharding import ShardedVariable, VariableSharding
from autodist.strategies import Strategy, VariableConfig, num_shards, shard_slices


@dataclass(frozen=True)
class Partition(Preparation):
    """Make every shard a variable ``NAME/shard_K``.

    S may have configs with a partition for variables without a gradient: they are cut in the same way, and the new
    strategy does not mention them. One that can't be cut is refused.
    """

    name: ClassVar[str] = "partition"
    provides: ClassVar[frozenset[Fact]] = frozenset({Fact.SHARDS})

    def apply(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        """See the class."""
        return _partitioned(graph, strategy)


def _partitioned(graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
    cut_configs = [config for config in strategy.variables if config.partition is not None]
    if not cut_configs:
        return graph, strategy
    tiled = _tiled(cut_configs)
    cuts = {
        config.variable: _cut(number, graph, config, is_tiled=config.variable in tiled)
        for number, config in enumerate(c for c in cut_configs if num_shards(c.partition) > 1)
    }
    trainable = {variable.name for variable in graph.trainable}
    configs = [c for config in strategy.variables for c in _configs(config) if config.variable in trainable]
    cutting = VariableSharding(graph.analysis, tuple(cuts.values()))
    effects = cutting.effects(graph.effects)
    lines = {new: graph.lines[old] for new, old in effects if old in graph.lines}
    prepared = replace(
        graph,
        graph_def=cutting.build(),
        variables=_variables(graph, cuts, tiled),
        effects=tuple(new for new, _ in effects),
        lines=lines,
    )
    return prepared, replace(strategy, variables=tuple(configs))


def _cut(number: int, graph: TrainingGraph, config: VariableConfig, *, is_tiled: bool) -> ShardedVariable:
    regions = graph.tile_regions if is_tiled else graph.update_regions
    region = regions.of(config.variable)
    if region.obstacles:
        raise StrategyError(
            f"`{config.variable}` is partitioned in another step of the scope, and can't be in this one: "
            f"{region.obstacles[0]}",
            hint="give the variable a strategy without a partition, or one scope per step",
        )
    return ShardedVariable(number, region, shard_slices(config.partition, region.variable.shape), is_tiled)


def _configs(config: VariableConfig) -> Iterator[VariableConfig]:
    """A config per shard."""
    if len(config.shards) == 1:
        yield replace(config, partition=None)
        return
    for shard, shard_config in enumerate(config.shards):
        yield VariableConfig(shard_name(config.variable, shard), (shard_config,))


def shard_name(variable: str, shard: int) -> str:
    """Name of the variable that a shard becomes."""
    return f"{variable}/shard_{shard}"


def _tiled(configs: Sequence[VariableConfig]) -> dict[str, int]:
    """The tiled variables, each with the number of examples that the tiling is planned for."""
    found = {config.variable: config.synchronizer.tiled_for for config in configs}
    return {name: examples for name, examples in found.items() if examples is not None}


def _variables(
    graph: TrainingGraph, cuts: dict[str, ShardedVariable], tiled: Mapping[str, int]
) -> tuple[Variable, ...]:
    owner = {slot.name: cut for cut in cuts.values() for slot in cut.region.slots}
    found: list[Variable] = []
    for variable in graph.variables:
        cut = cuts.get(variable.name) or owner.get(variable.name)
        if cut is None:
            found.append(variable)
        else:
            examples = tiled.get(variable.name)
            found.extend(_shard(variable, cut, shard, examples) for shard in range(len(cut.shards)))
    ordered = sorted((v for v in found if v.backward_order >= 0), key=lambda v: v.backward_order)
    ranks = {variable.name: rank for rank, variable in enumerate(ordered)}
    return tuple(replace(v, backward_order=ranks.get(v.name, -1)) for v in found)


def _shard(variable: Variable, cut: ShardedVariable, shard: int, tiled_for: int | None) -> Variable:
    """A shard of a variable, or of one of its slots."""
    owner = cut.region.variable
    together = range(len(cut.shards)) if cut.region.observers and not cut.is_tiled else (shard,)
    names = tuple(shard_name(owner.name, k) for k in together)
    part = cut.shards[shard]
    return replace(
        variable,
        name=shard_name(variable.name, shard),
        handle=cut.copy(shard, variable.handle),
        shape=part.size,
        gradients=cut.gradients(shard) if variable is owner else (),
        owners=names if variable.role is Role.SLOT and variable is not owner else (),
        coupled=names if variable.role is Role.TRAINABLE else (),
        piece=ShardOrigin(variable.name, part.begin, variable.shape, tiled_for),
    )
