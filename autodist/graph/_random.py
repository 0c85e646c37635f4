"""Random numbers of a step: whether kernels or variables hold the state of their generators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import called_functions, is_stateful
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.operators import Kind, is_kind

_BY_VARIABLE = ("Stateful", "Rng")
"""First letters of the ops whose generator has its state in a variable of the program."""


def draws_by_kernels(graph: TrainingGraph) -> bool:
    """Whether kernels hold the state of a step's random generators, so that each trace of the step restarts them."""
    functions = graph.graph_def.library.function
    ops = {node.op for nodes in (graph.graph_def.node, *(f.node_def for f in functions)) for node in nodes}
    return any(is_kind(op, Kind.RANDOM) and is_stateful(op) and not op.startswith(_BY_VARIABLE) for op in ops)


def draws_inside(graph_def: Any, nodes: Iterable[Any]) -> list[str]:
    """The nodes, such as loops and branches, that call functions in which random numbers are drawn.

    Args:
        graph_def: The step, with its functions.
        nodes: Which of its nodes to look into.
    """
    bodies, known = FunctionBodies(graph_def), dict[str, bool]()

    def is_drawing(function: str) -> bool:
        if function not in known:
            inside = bodies.nodes(function).values()
            known[function] = any(is_kind(node.op, Kind.RANDOM) or calls_drawing(node) for node in inside)
        return known[function]

    def calls_drawing(node: Any) -> bool:
        return any(is_drawing(called.name) for called in called_functions(node))

    return [node.name for node in nodes if calls_drawing(node)]
