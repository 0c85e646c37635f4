"""The strategy in which some variables are tiled over all replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autodist.carriers import carrier_of_groups
from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._base import StrategyBuilder, replica_names
from autodist.strategies._builders._collectives import carrier_of, chunks, grouped, in_backward_order
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._partitions import can_cut, split
from autodist.strategies._strategy import Communicator, ShardConfig, VariableConfig
from autodist.strategies.synchronizers import AllReduceSynchronizer, TileSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

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
    fits = dim < len(found.shape) and found.shape[dim] >= parts
    if not fits or parts < 2:
        return False
    return can_cut(graph, found, dim) if graph.graph_def is None else why_whole(graph, variable) is None


def why_whole(graph: TrainingGraph, variable: str) -> str | None:
    """Why no dim of a variable can be cut, because of its update; None if its update allows it.

    Args:
        graph: G.
        variable: Its name.
    """
    if graph.graph_def is None:  # the graph is only described, for planning
        return None
    region = graph.in_parts.tile_regions.of(variable)
    return str(region.obstacles[0]) if region.obstacles else region.outside_use


def tile_config(
    graph: TrainingGraph,
    spec: ResourceSpec,
    variable: str,
    dim: int,
    groups: int = 1,
    group: int = 0,
    *,
    replicas: tuple[str, ...] | None = None,
    compressor: str | None = None,
    carrier: Communicator | None = None,
    served: int | None = None,
    staleness: int | None = None,
) -> VariableConfig:
    """Return how a variable is tiled over all replicas, or over those of each group, for the graph's batch.

    Args:
        graph: G.
        spec: D.
        variable: Its name.
        dim: The dim that is cut.
        groups: How many groups of replicas have all parts.
        group: Number of the buffer in which its gradients travel between groups.
        replicas: All replicas; None for those of the cluster.
        compressor: Encoder of its gradients between groups.
        carrier: The carrier of these gradients; None for the best one.
        served: The group that applies the updates of the first part for all groups, the next one those of the next
            part; None if each group applies them itself.
        staleness: How many steps after its own a gradient meets those of other groups, and is applied; None for 0.
    """
    replicas = replica_names(spec) if replicas is None else replicas
    size, examples = len(replicas) // groups, graph.batch_size or 0
    tiles = [TileSynchronizer(device, examples) for device in replicas[:size]]
    if groups > 1:
        between = AllReduceSynchronizer(group, carrier or carrier_of_groups(), staleness or None)
        copies = (replicas[k + size :: size] for k in range(size))
        tiles = [replace(tile, copies=found, between=between) for tile, found in zip(tiles, copies, strict=True)]
    if groups > 1 and served is not None:
        tiles = [replace(tile, server=tile.devices[(served + k) % groups]) for k, tile in enumerate(tiles)]
    shards = tuple(ShardConfig(tile, compressor if groups > 1 else None) for tile in tiles)
    return VariableConfig(variable, shards, split(graph.variable(variable), size, dim))


def tile_variables(
    builder: StrategyBuilder,
    graph: TrainingGraph,
    spec: ResourceSpec,
    dims: Mapping[str, int],
    remark: str = "",
    groups: int = 1,
    compressor: str | None = None,
    served: bool = False,
    staleness: int = 0,
) -> Strategy:
    """Return the strategy in which variables are tiled, and all others are all-reduced.

    Args:
        builder: The builder.
        graph: G.
        spec: D.
        dims: By variable that is tiled, the dim that is cut.
        remark: A text that says where the builder did not do what it was asked for, and why.
        groups: How many groups of replicas have all parts of tiled variables.
        compressor: Encoder of the gradients that travel, as far as it can encode them.
        served: Whether one group applies the updates of a part for all groups.
        staleness: How many steps after its own a gradient is exchanged and applied.
    """
    carrier = carrier_of(builder)
    rest = [variable for variable in in_backward_order(graph) if variable.name not in dims]
    numbers = chunks(rest, _CHUNK_SIZE)
    configs = {
        v.name: grouped(v, numbers[v.name], carrier, compressor=encoder(v, compressor), staleness=staleness)
        for v in rest
    }
    first = 1 + max((number for found in numbers.values() for number in found), default=-1)
    tiled = chunks([v for v in in_backward_order(graph) if v.name in dims], _CHUNK_SIZE)
    # Variables of one size, one after the other, have other servers, so that each host serves as much.
    by_size = sorted(dims, key=lambda name: -graph.variable(name).size_bytes)
    for place, name in enumerate(by_size):
        coded, number = None if served else encoder(graph.variable(name), compressor), first + tiled[name][0]
        server = place if served else None
        configs[name] = tile_config(
            graph, spec, name, dims[name], groups, number, compressor=coded, served=server, staleness=staleness
        )
    return assemble(builder, graph, spec, configs, carrier, remark)
