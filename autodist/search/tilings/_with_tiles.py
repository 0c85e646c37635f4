"""Strategies that are like another one, but tile its largest variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autodist.resource_spec import Mesh
from autodist.search.tilings._plan_tiling import plan_tiling
from autodist.strategies import Strategy, can_tile, tile_config

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec

__all__ = ["with_tiles"]

_MOST = 4
_FEW = 2
_MANY_NODES = 5000
"""How many are made, and how many for a step with so many nodes: the exchanges of each are planned."""


def with_tiles(
    graph: TrainingGraph, spec: ResourceSpec, others: Strategy, cut: Mapping[str, int] | None = None
) -> Iterator[Strategy]:
    """Yield strategies in which the largest variables are tiled, and all others are as another strategy has them.

    The dims are those with which all tensors of the step together move the fewest bytes. Small variables may be worth
    less than what the computation waits for, so there is one with all, and some with fewer.

    Args:
        graph: G, for a batch of known size.
        spec: D.
        others: A strategy for all devices.
        cut: By variable that may be tiled, its dim; None to look for those dims.

    Raises:
        StrategyError: Nothing is known of the step, see :func:`~autodist.search.tilings.plan_tiling`.

    """
    parts = len(spec.replicas)
    if cut is None:
        cut = plan_tiling(graph, Mesh.of(spec).flat()).cut_dims()
    sizes = {
        v.name: v.size_bytes for v in graph.trainable if v.name in cut and can_tile(graph, v.name, cut[v.name], parts)
    }
    is_large = graph.graph_def is None or len(graph.graph_def.node) > _MANY_NODES
    for least in _thresholds(sizes, _FEW if is_large else _MOST):
        dims = {name: cut[name] for name, size in sizes.items() if size >= least}
        configs = (
            tile_config(graph, spec, c.variable, dims[c.variable]) if c.variable in dims else c
            for c in others.variables
        )
        yield replace(
            others, variables=tuple(configs), builder=f"Tiled, {len(dims)} of {len(others.variables)} variables"
        )


def _thresholds(sizes: Mapping[str, int], most: int) -> list[int]:
    """The least sizes of what is tiled: that of all, and some larger ones; layers of one size are not torn apart."""
    found = sorted(set(sizes.values()))
    last = len(found) - 1
    return [found[round(k * last / (most - 1))] for k in range(most)] if last >= most else found
