"""The pruned graph of thesis 8.3.1: which variables follow each other in the dataflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from autodist.simulator._message_table import Bools

if TYPE_CHECKING:
    from collections.abc import Sequence

    from autodist.graph import TrainingGraph, Variable

_NONE: frozenset[int] = frozenset()


def neighbours(graph: TrainingGraph, variables: Sequence[Variable]) -> Bools:
    """The edges of G pruned to its variables, in both directions; each variable is its own neighbour.

    Two variables are neighbours if data flows from a use of one to a use of the other without passing a third one. The
    variables of a graph that is only described form a chain.

    Args:
        graph: G.
        variables: The variables, in the order of rows and columns.

    Returns:
        Shape (variables, variables).
    """
    edges = np.eye(len(variables), dtype=bool)
    pairs = set(zip(range(len(variables)), range(1, len(variables)), strict=False))
    if graph.graph_def is not None:
        pairs = _edges(graph, {variable.handle: number for number, variable in enumerate(variables)})
    for one, other in pairs:
        edges[one, other] = edges[other, one] = True
    return edges


def _edges(graph: TrainingGraph, number_of: dict[str, int]) -> set[tuple[int, int]]:
    """The edges, each from a variable to the one that is used next on the way of the data."""
    analysis = graph.analysis
    found: set[tuple[int, int]] = set()
    weights: dict[str, frozenset[int]] = {}  # values made of variables alone, by the node that gives them
    last: dict[str, frozenset[int]] = {}  # by node of values made of data, the variables that these have met last
    for name in analysis.order:
        read = frozenset(number_of[handle] for handle in analysis.reads.get(name, ()) if handle in number_of)
        sources = analysis.sources[name]
        used = read.union(*(weights.get(source, _NONE) for source in sources))
        is_data = any(source in last for source in sources) or name in analysis.split
        before = _NONE.union(*(last.get(source, _NONE) for source in sources))
        if not is_data:
            weights[name] = used
            continue
        found.update((one, other) for one in before for other in used - before)
        last[name] = used or before
    return found
