"""Strategies that are like other ones, but tile their largest variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autodist.graph.batch import BY_REPLICA
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


def with_tiles(
    graph: TrainingGraph,
    spec: ResourceSpec,
    others: Sequence[Strategy],
    cut: Mapping[str, int] | None = None,
    *,
    may_group: bool = False,
) -> Iterator[Strategy]:
    """Yield strategies in which the largest variables are tiled, and all others are as some strategies have them.

    The dims are those with which all tensors of the step together move the fewest bytes. Small variables may be worth
    less than what the computation waits for, so there is one with all, and some with fewer.

    Args:
        graph: G, for a batch of known size.
        spec: D.
        others: Strategies for all devices.
        cut: By variable that may be tiled, its dim; None to look for those dims.
        may_group: Whether there are some with groups of replicas as well.

    Raises:
        StrategyError: Nothing is known of the step, see :func:`~autodist.search.tilings.plan_tiling`.
    """
    price = bytes_of_an_exchange(spec)
    of_all = plan_tiling(graph, Mesh.of(spec).flat(), exchange_bytes=price).cut_dims() if cut is None else cut
    sizes = _sizes(graph, of_all, len(spec.replicas))
    is_large = graph.graph_def is None or len(graph.graph_def.node) > _MANY_NODES
    for least in _thresholds(sizes, _FEW if is_large else _MOST):
        dims = {name: of_all[name] for name, size in sizes.items() if size >= least}
        yield from (_tiled(graph, spec, other, dims) for other in others)
    if cut is None and may_group and not is_large and can_group(graph):
        yield from _in_groups(graph, spec, others)


def _in_groups(graph: TrainingGraph, spec: ResourceSpec, others: Sequence[Strategy]) -> Iterator[Strategy]:
    """The strategies in which groups of replicas have all parts, for each possible number of groups."""
    mesh, examples = Mesh.of(spec).flat(), graph.batch_size or 0
    price = bytes_of_an_exchange(spec)
    for groups in numbers_of_groups(spec):
        parts = mesh.size // groups
        if examples < groups or parts < 2:
            continue
        [(axis, _)] = mesh.axes
        of_group = Mesh(((axis, parts),), mesh.devices[:parts])
        cut = plan_tiling(graph.with_batch_size(examples // groups), of_group, exchange_bytes=price).cut_dims()
        dims = {name: cut[name] for name in _sizes(graph, cut, parts)}
        if dims:
            yield from (_tiled(graph, spec, other, dims, groups) for other in others)


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
    """Whether nothing speaks against groups of replicas that have parts of the batch, as far as a glance tells.

    Random numbers that are not drawn by a counter, and batch normalization, rule them out.
    """
    analysis = graph.analysis
    nodes = (analysis.nodes[name] for name in analysis.scalings)
    return not (analysis.synchronized or any(map(_differs, nodes))) and graph.fixed_rows is None


def _differs(node: Any) -> bool:
    draws_apart = is_kind(node.op, Kind.RANDOM) and not meaning(node.op).draws_in_order
    return BY_REPLICA in node.attr or draws_apart


def _sizes(graph: TrainingGraph, cut: Mapping[str, int], parts: int) -> dict[str, int]:
    """By variable that is cut and can be, its bytes."""
    return {
        v.name: v.size_bytes for v in graph.trainable if v.name in cut and can_tile(graph, v.name, cut[v.name], parts)
    }


def _tiled(
    graph: TrainingGraph, spec: ResourceSpec, others: Strategy, dims: Mapping[str, int], groups: int = 1
) -> Strategy:
    """A strategy like another one, except the variables that are tiled."""
    group = 1 + max(others.groups, default=-1)
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
    last = len(found) - 1
    return [found[round(k * last / (most - 1))] for k in range(most)] if last >= most else found
