"""A traced function of arrays, which is not a training step; its loops are unrolled where possible."""

from __future__ import annotations

from dataclasses import replace

from autodist.graph._graph_def import node_of
from autodist.graph._inline import resolved
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.annotations import MARK
from autodist.graph.tracing._captured_step import CapturedStep
from autodist.graph.tracing._unroll import unroll_loops


def as_array_program(captured: CapturedStep) -> tuple[CapturedStep, tuple[str, ...]]:
    """A captured function as a program of arrays.

    Its gradients are ordinary tensors, and every worker does the same with its variables.

    Args:
        captured: Traced for the shapes of its arguments.

    Returns:
        The function, and the loops that are left in it, because data say how often they turn.
    """
    graph = captured.graph.without_gradients()
    graph_def, aliases, left = unroll_loops(graph.graph_def)
    if MARK in {name for node in graph_def.node for name in node.attr}:
        own = type(graph_def)()
        own.CopyFrom(graph_def)
        graph_def = own
        for node in graph_def.node:
            node.attr.pop(MARK, None)
    outputs = tuple(replace(output, tensor=resolved(output.tensor, aliases)) for output in graph.outputs)
    lines = {name: line for name, line in graph.lines.items() if name in {node.name for node in graph_def.node}}
    changed = TrainingGraph(graph_def, graph.variables, graph.inputs, outputs, graph.effects, lines, graph.batch_size)
    return replace(captured, graph=changed), tuple(node_of(name) for name in left)
