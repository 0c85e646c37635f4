"""Where random numbers are counted."""

from __future__ import annotations

from autodist.graph._graph_def import is_stateful
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.operators import Kind, is_kind

__all__ = ["draws_by_kernels"]

_BY_VARIABLE = ("Stateful", "Rng")
"""How ops begin that count in a variable of the program."""


def draws_by_kernels(graph: TrainingGraph) -> bool:
    """Whether a step has random numbers that kernels count, so that each trace of it begins them again."""
    functions = graph.graph_def.library.function
    ops = {node.op for nodes in (graph.graph_def.node, *(f.node_def for f in functions)) for node in nodes}
    return any(is_kind(op, Kind.RANDOM) and is_stateful(op) and not op.startswith(_BY_VARIABLE) for op in ops)
