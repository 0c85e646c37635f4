"""What replicas would exchange in a step if some of its variables were tiled, before anything is rewritten."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from autodist.graph._graph_def import data_inputs, node_of
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.layouts._batch_plan import NoPlanError
from autodist.graph.layouts._exchanged import Exchanged, exchanged_in
from autodist.graph.layouts._plan import plan_batch
from autodist.graph.layouts._shapes import StepShapes
from autodist.graph.layouts._shapes_of import shapes_of
from autodist.graph.layouts._tiled_variables import TiledVariables

__all__ = ["tile_exchanges"]

_Wanted: TypeAlias = "tuple[tuple[tuple[str, int], ...], int, int]"


def tile_exchanges(
    graph: TrainingGraph, dims: Mapping[str, int], parts: int, examples: int
) -> tuple[Exchanged, ...] | None:
    """What replicas exchange in a step with tiled variables, the largest first.

    It is what :func:`~autodist.graph.layouts.exchanged_in` finds after the variables have been cut.

    Args:
        graph: G, with its GraphDef; its variables are whole.
        dims: By variable that is tiled, the dim that is cut.
        parts: How many replicas there are.
        examples: For how many examples.

    Returns:
        None if replicas can't share such a step.

    """
    kept: _Exchanges = graph.analysis.derived.setdefault(_Exchanges, _Exchanges())
    return kept.of(graph.with_batch_size(examples), dims, parts)


class _Exchanges:
    """Those of a step that were asked for before: a plan takes seconds for a large step, and costs are needed often."""

    def __init__(self) -> None:
        self._found: dict[_Wanted, tuple[Exchanged, ...] | None] = {}
        self._shapes: StepShapes | None = None

    def of(self, graph: TrainingGraph, dims: Mapping[str, int], parts: int) -> tuple[Exchanged, ...] | None:
        """See :func:`tile_exchanges`."""
        examples = graph.batch_size or 0
        wanted = tuple(sorted(dims.items())), parts, examples
        if wanted not in self._found:
            step = _without_updates(graph)
            tiled = TiledVariables.planned(step, dims, parts, examples)
            with contextlib.suppress(NoPlanError):  # of some loops they are not known; there the plan goes another way
                self._shapes = self._shapes or shapes_of(step, tiled, by_rows=True)
            try:
                self._found[wanted] = exchanged_in(step, plan_batch(step, tiled, self._shapes))
            except NoPlanError:
                self._found[wanted] = None
        return self._found[wanted]


def _without_updates(graph: TrainingGraph) -> TrainingGraph:
    """The step up to its gradients: each replica updates its own parts, and exchanges nothing for that."""
    analysis = graph.analysis
    updates = set(analysis.marks)
    for name in analysis.order:
        if any(node_of(tensor) in updates for tensor in data_inputs(analysis.nodes[name])):
            updates.add(name)
    kept = (effect for effect in graph.effects if effect not in updates and effect not in analysis.writes)
    step = replace(graph, effects=(*kept, *analysis.marks))
    step.__dict__["analysis"] = analysis  # of the same nodes
    return step
