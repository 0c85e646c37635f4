"""Strategies that are like other ones, but tile their largest variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from autodist.graph.operators import Kind, is_kind, meaning
from autodist.resource_spec import Mesh
from autodist.search.tilings._exchange_price import bytes_of_an_exchange
from autodist.search.tilings._plan_tiling import plan_tiling
from autodist.strategies import Strategy, can_tile, tile_config

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

_MOST = 4
_FEW = 2
_MANY_NODES = 5000
"""The number of nodes from which fewer strategies are made, since the exchanges of each are planned."""


def tiled_cuts(graph: TrainingGraph, spec: ResourceSpec, *, may_group: bool = False) -> dict[int, dict[str, int]]:
    """By number of groups of replicas, the dims of variables with which a step moves the fewest bytes.

    Args:
        graph: G, for a batch of known size.
        spec: D.
        may_group: Whether replicas may fall into groups; 1 for all replicas together is always there.

    Raises:
        StrategyError: Nothing is known of the step, see :func:`~autodist.search.tilings.plan_tiling`.
    """
    mesh, price = Mesh.of(spec).flat(), bytes_of_an_exchange(spec)
    found = {1: dict(plan_tiling(graph, mesh, exchange_bytes=price).cut_dims())}
    if may_group and not _is_large(graph) and can_group(graph):
        found |= _cuts_of_groups(graph, spec, mesh, price)
    return found


def _cuts_of_groups(graph: TrainingGraph, spec: ResourceSpec, mesh: Mesh, price: float) -> dict[int, dict[str, int]]:
    """The dims for each possible number of groups, each of which has its part of the batch."""
    examples, found = graph.batch_size or 0, {}
    for groups in numbers_of_groups(spec):
        parts = mesh.size // groups
        if examples >= groups and parts > 1:
            [(axis, _)] = mesh.axes
            of_group = Mesh(((axis, parts),), mesh.devices[:parts])
            plan = plan_tiling(graph.with_batch_size(examples // groups), of_group, exchange_bytes=price)
            found[groups] = dict(plan.cut_dims())
    return found


def with_tiles(
    graph: TrainingGraph,
    spec: ResourceSpec,
    others: Sequence[Strategy],
    cuts: Mapping[int, Mapping[str, int]] | None = None,
) -> Iterator[Strategy]:
    """Yield strategies in which the largest variables are tiled, and all others are as some strategies have them.

    Small variables may be worth less than what the computation waits for, so there is one with all, and some with
    fewer; in groups of replicas one with all.

    Args:
        graph: G, for a batch of known size.
        spec: D.
        others: Strategies for all devices.
        cuts: By number of groups of replicas, the dim of each variable that may be tiled: :func:`tiled_cuts`; None to
            look for those without groups.

    Raises:
        StrategyError: Nothing is known of the step.
    """
    replicas = len(spec.replicas)
    for groups, cut in (tiled_cuts(graph, spec) if cuts is None else cuts).items():
        sizes = _sizes(graph, cut, replicas // groups)
        most = 1 if groups > 1 else _FEW if _is_large(graph) else _MOST
        for least in _thresholds(sizes, most):
            dims = {name: cut[name] for name, size in sizes.items() if size >= least}
            yield from (_tiled(graph, spec, other, dims, groups) for other in others)


def _is_large(graph: TrainingGraph) -> bool:
    return graph.graph_def is None or len(graph.graph_def.node) > _MANY_NODES


def numbers_of_groups(spec: ResourceSpec) -> tuple[int, ...]:
    """Into how many groups of whole hosts, more than one of each, replicas may fall.

    Example:
        >>> from autodist.resource_spec import ResourceSpec
        >>> numbers_of_groups(ResourceSpec.local(workers=8))
        (2, 4)
    """
    hosts, counts = len(spec.hosts), {len(host.replica_devices) for host in spec.hosts}
    return tuple(n for n in range(2, hosts) if hosts % n == 0) if len(counts) == 1 else ()


def can_group(graph: TrainingGraph) -> bool:
    """Whether groups of replicas can have parts of the batch, as far as a glance tells.

    Random numbers that are not drawn by a counter rule them out.
    """
    if graph.fixed_rows is not None:
        return False
    analysis = graph.analysis
    nodes = [analysis.nodes[name] for name in analysis.scalings]
    return not any(is_kind(node.op, Kind.RANDOM) and not meaning(node.op).draws_in_order for node in nodes)


def _sizes(graph: TrainingGraph, cut: Mapping[str, int], parts: int) -> dict[str, int]:
    """By variable that is cut and can be, its bytes."""
    return {
        v.name: v.size_bytes for v in graph.trainable if v.name in cut and can_tile(graph, v.name, cut[v.name], parts)
    }


def _tiled(
    graph: TrainingGraph, spec: ResourceSpec, others: Strategy, dims: Mapping[str, int], groups: int = 1
) -> Strategy:
    """A strategy like another one, except the variables that are tiled."""
    group = others.free_group
    configs = []
    for config in others.variables:
        is_tiled = config.variable in dims
        configs.append(
            tile_config(graph, spec, config.variable, dims[config.variable], groups, group) if is_tiled else config
        )
        group += is_tiled
    told = f" in {groups} groups" if groups > 1 else ""
    builder = f"Tiled{told}, {len(dims)} of {len(others.variables)} variables"
    return replace(others, variables=tuple(configs), builder=builder)


def _thresholds(sizes: Mapping[str, int], most: int) -> list[int]:
    """Least sizes, in bytes, of tiled variables: the smallest size, and larger ones; equal layers stay together."""
    found = sorted(set(sizes.values()))
    if most == 1:
        return found[:1]
    last = len(found) - 1
    return [found[round(k * last / (most - 1))] for k in range(most)] if last >= most else found
