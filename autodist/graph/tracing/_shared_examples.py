"""A traced step as one for batches of a single number of rows, of which replicas may have parts of each example."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.graph._graph_def import node_of
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.tracing._captured_step import CapturedStep


def for_shared_examples(captured: CapturedStep, rows: int) -> CapturedStep:
    """The same step, all of whose arguments come whole to it, and have this many rows if they are batches.

    It is traced as it was for one device, which may know the number of rows or not: what the program asks its arrays
    for while it is traced stays the same. Only afterwards their shapes are filled in.

    Args:
        captured: The step.
        rows: How many rows its batch has.
    """
    graph = captured.graph
    split = {node_of(given.tensor) for given in graph.inputs if given.split}
    graph_def = type(graph.graph_def)()
    graph_def.CopyFrom(graph.graph_def)
    for node in graph_def.node:
        if node.name in split:
            _fill_in(node, rows)
    inputs = tuple(
        replace(given, split=False, shape=(rows, *given.shape[1:]) if given.split and given.shape else given.shape)
        for given in graph.inputs
    )
    return replace(
        captured,
        graph=TrainingGraph(graph_def, graph.variables, inputs, graph.outputs, graph.effects, graph.lines, rows),
    )


def _fill_in(placeholder: Any, rows: int) -> None:
    placeholder.attr["shape"].shape.dim[0].size = rows
    for shape in placeholder.attr["_output_shapes"].list.shape[:1]:
        shape.dim[0].size = rows
