"""Made for tiles: operators for which tiles would be gathered are replaced by others that work on tiles."""

from __future__ import annotations

from typing import ClassVar

from autodist.graph import TrainingGraph, in_parts
from autodist.graph.layouts import step_for_tiles
from autodist.kernels._base import Preparation
from autodist.strategies import Strategy, tiled_dims


class MadeForTiles(Preparation):
    """Have each replica do its part of a softmax of classes that replicas share, and of lookups by handles."""

    name: ClassVar[str] = "made-for-tiles"

    def apply(self, graph: TrainingGraph, strategy: Strategy) -> tuple[TrainingGraph, Strategy]:
        """See the class."""
        here = {variable.name for variable in graph.variables}
        dims = {name: dim for name, dim in tiled_dims(strategy).items() if name in here}
        if not dims:
            return graph, strategy
        examples = max(c.synchronizer.tiled_for or 0 for c in strategy.variables if c.variable in dims)
        groups = strategy.groups_of_replicas
        parts = len(strategy.graph.replicas) // groups
        return step_for_tiles(in_parts(graph, dims), dims, parts, examples // groups), strategy
