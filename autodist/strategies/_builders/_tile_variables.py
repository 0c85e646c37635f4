"""The strategy in which some variables are tiled over all replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._builders._collectives import carrier_of, chunks, grouped, in_backward_order
from autodist.strategies._builders._partitions import can_split, split
from autodist.strategies._strategy import ShardConfig, VariableConfig
from autodist.strategies.synchronizers import TileSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

__all__ = ["can_tile", "tile_config", "tile_variables"]

_CHUNK_SIZE = 128
"""How many of the other variables share a message at most."""


def can_tile(graph: TrainingGraph, variable: str, dim: int, parts: int) -> bool:
    """Whether each replica can compute with its part of a variable that is cut along a dim.

    Args:
        graph: G.
        variable: Its name.
        dim: The dim.
        parts: How many replicas there are.

    """
    found = graph.variable(variable)
    fits = dim < len(found.shape) and found.shape[dim] % parts == 0
    return fits and parts > 1 and can_split(graph, found, dim)


def tile_config(graph: TrainingGraph, spec: ResourceSpec, variable: str, dim: int) -> VariableConfig:
    """Return how a variable is tiled over all replicas, for the graph's batch.

    Args:
        graph: G.
        spec: D.
        variable: Its name.
        dim: The dim that is cut.

    """
    replicas = replica_names(spec)
    shards = tuple(ShardConfig(TileSynchronizer(device, graph.batch_size or 0)) for device in replicas)
    return VariableConfig(variable, shards, split(graph.variable(variable), len(replicas), dim))


def tile_variables(
    builder: StrategyBuilder, graph: TrainingGraph, spec: ResourceSpec, dims: Mapping[str, int], remark: str = ""
) -> Strategy:
    """Return the strategy in which variables are tiled, and all others are all-reduced.

    Args:
        builder: Who builds it.
        graph: G.
        spec: D.
        dims: By variable that is tiled, the dim that is cut.
        remark: What the builder did otherwise than it is asked for, and why.

    """
    carrier = carrier_of(builder)
    configs = {name: tile_config(graph, spec, name, dim) for name, dim in dims.items()}
    rest = [variable for variable in in_backward_order(graph) if variable.name not in dims]
    groups = chunks(rest, _CHUNK_SIZE)
    configs.update((v.name, grouped(v, groups[v.name], carrier)) for v in rest)
    return assemble(builder, graph, spec, configs, carrier, remark)
