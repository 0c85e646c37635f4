"""The facts about the sizes of a step, for its plan."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from autodist.graph._graph_def import ancestors, node_of, output_shape
from autodist.graph._nodes import NodeList
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.analysis import StepAnalysis
from autodist.graph.layouts._batch_plan import NoPlanError
from autodist.graph.layouts._flows import Flows
from autodist.graph.layouts._shapes import StepShapes, many_rows
from autodist.graph.layouts._tiled_variables import TiledVariables

_NO_EXAMPLES = 2_147_483_629
"""Represents the number of examples of a step without a batch: a prime that is not the length of any dim."""


def shapes_of(graph: TrainingGraph, tiled: TiledVariables, *, by_rows: bool) -> StepShapes:
    """Infer the sizes of a step.

    Args:
        graph: The step.
        tiled: The variables and arguments of which each replica has a part.
        by_rows: Whether replicas may run loops on their own rows.

    Raises:
        NoPlanError: TensorFlow can't infer them.
    """
    analysis = graph.analysis
    has_batch = not tiled.inputs
    try:
        return StepShapes(
            _unsized(_with_batch(analysis, tiled), tiled.meetings) if has_batch else analysis.graph_def,
            analysis.split,
            {v.handle: (v.dtype, v.shape) for v in graph.variables},
            Flows(graph, by_rows=by_rows),
            graph.fixed_rows if has_batch else _NO_EXAMPLES,
            many_rows(graph.batch_size),
        )
    except ValueError as error:
        raise NoPlanError(f"its shapes: {error}") from error


def unlike_for(graph: TrainingGraph, rows: int) -> str | None:
    """A node of a step whose sizes, for so many rows, differ from those that a plan for any number assumes.

    Padding to two rows gives two for one row, and a slice of the first 8192 rows gives no more for a larger batch.
    Nodes of backward passes have the sizes of their forward pass, and are not checked.

    Args:
        graph: The step, with the number of rows that it is planned with.
        rows: How many rows the batch has.

    Returns:
        The node; None if there is none, or no plan.
    """
    analysis = graph.analysis
    roots = [*graph.effects, *(node_of(output.tensor) for output in graph.outputs)]
    roots += [node_of(tensor) for targets in analysis.targets.values() for tensor in targets]
    asked = ancestors(analysis.nodes, roots, lambda name: name in analysis.marks)
    try:
        shapes = shapes_of(graph, TiledVariables(), by_rows=True)
        if 1 < rows <= shapes.most_rows:
            return None
        return shapes.unlike({name: analysis.nodes[name] for name in analysis.order if name in asked}, rows)
    except ValueError:
        return None  # the step can't be planned, or no device can take so many rows


def _with_batch(analysis: StepAnalysis, tiled: TiledVariables) -> Any:
    """The part of a step whose shapes matter: what depends on the batch, and what that is made of.

    What follows upon gradients, half of the nodes with some optimizers, is the same on all workers, unless it reads
    tiled variables, as constraints on weights do. Gradients of these may come from what no example has a part in, such
    as the loss of a generator.
    """
    gradients = (node_of(gradient.source) for gradient in tiled.gradients.values())
    kept = ancestors(analysis.nodes, [*analysis.scalings, *analysis.split, *gradients])
    if not kept.issuperset(tiled.reads):
        return analysis.graph_def
    part = type(analysis.graph_def)(versions=analysis.graph_def.versions, library=analysis.graph_def.library)
    for node in analysis.graph_def.node:
        if node.name in kept:
            part.node.add().CopyFrom(node)
    return part


def _unsized(graph_def: Any, meetings: Collection[str]) -> Any:
    """A step in which tensors at which groups of replicas join their values have the shapes of the joined ones."""
    if not meetings:
        return graph_def
    nodes = NodeList()
    for node in graph_def.node:
        if node.name in meetings:
            nodes.add("Placeholder", node.name, dtype=node.attr["T"].type, shape=output_shape(node))
        else:
            nodes.nodes.append(node)
    found = type(graph_def)(versions=graph_def.versions, library=graph_def.library)
    found.node.extend(nodes.nodes)
    return found
