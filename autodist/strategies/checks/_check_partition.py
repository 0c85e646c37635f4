"""Conditions of a partition: it fits the variable, and the variable's update can be cut into parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodist.strategies._problem import Problem, listed
from autodist.strategies._shards import Partition, num_shards
from autodist.strategies._strategy import Strategy, VariableConfig

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, UpdateRegion, Variable
    from autodist.resource_spec import ResourceSpec


def partitions(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield what is wrong with the partitions of a strategy."""
    known = {variable.name: variable for variable in graph.trainable}
    like_shards = [variable.name for variable in graph.variables if "/shard_" in variable.name]
    for config in strategy.variables:
        if config.partition is None or config.variable not in known:
            continue
        problems = list(_misfits(config, known[config.variable]))
        yield from problems
        if not problems and num_shards(config.partition) > 1:
            yield from _taken_names(config, graph, like_shards)
            if graph.graph_def is not None:  # without nodes, the graph is only described, for planning
                is_tiled = config.synchronizer.tiled_for is not None
                regions = graph.in_parts.tile_regions if is_tiled else graph.update_regions
                yield from _not_separable(config, regions.of(config.variable))


def _misfits(config: VariableConfig, variable: Variable) -> Iterator[Problem]:
    """The mistakes because of which the partition does not say which shards there are."""
    partition, shape = config.partition, variable.shape
    assert partition is not None
    if len(partition) != len(shape):
        allowed = f"one entry for each of its {len(shape)} dims" if shape else "no partition"
        yield _problem(config, allowed, f"its shape is {shape}")
        return
    if 0 in shape:
        yield _problem(config, "no partition", "it has no elements")
        return
    mistakes = [p for dim in range(len(shape)) for p in _misfits_of_dim(config, partition, dim, shape[dim])]
    yield from mistakes
    count = num_shards(partition)
    if not mistakes and count != len(config.shards):
        reason = f"the partition {partition!r} makes so many"
        yield Problem(config.variable, "number of shards", f"{len(config.shards)}", f"{count}", reason)


def _misfits_of_dim(config: VariableConfig, partition: Partition, dim: int, length: int) -> Iterator[Problem]:
    entry = partition[dim]
    if isinstance(entry, int):
        if not 1 <= entry <= length:
            yield _problem(config, f"1 to {length} parts of dim {dim}", f"the dim has {length} elements")
    elif min(entry, default=0) < 1 or sum(entry) != length:
        yield _problem(config, f"sizes of at least 1 that add up to {length} in dim {dim}", "they are the whole dim")


def _taken_names(config: VariableConfig, graph: TrainingGraph, like_shards: list[str]) -> Iterator[Problem]:
    if not like_shards:  # as in nearly all graphs; the rest takes long for a large one
        return
    own = {config.variable, *(slot.name for slot in graph.slots_of(config.variable))}
    taken = [given for given in like_shards if any(given.startswith(f"{name}/shard_") for name in own)]
    if taken:
        yield _problem(config, "no partition", f"its shards' names are taken by {listed(taken)}")


def _not_separable(config: VariableConfig, region: UpdateRegion) -> Iterator[Problem]:
    """The parts of the update that look at more than one shard."""
    reasons = [str(obstacle) for obstacle in region.obstacles]
    if reasons:
        more = f"; and {len(reasons) - 3} more" if len(reasons) > 3 else ""
        yield _problem(config, "no partition", "; ".join(reasons[:3]) + more)
    elif (
        region.outside_use and len({shard.synchronizer.home or shard.synchronizer.type for shard in config.shards}) > 1
    ):
        if any(shard.synchronizer.tiled_for is not None for shard in config.shards):
            yield _problem(config, "no partition", region.outside_use)
        else:
            yield Problem(config.variable, "home of its shards", "several", "one for all of them", region.outside_use)


def _problem(config: VariableConfig, allowed: str, reason: str) -> Problem:
    return Problem(config.variable, "partition", f"{config.partition!r}", allowed, reason)
