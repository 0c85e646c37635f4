"""Tied gradients: those of tables that are looked up in and multiplied by.

A language model may take its output layer from its embeddings (Press and Wolf, EACL 2017). The gradient of such a table
is the dense one of the product, the first that the backward pass makes, plus the rows of the lookup, the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.graph._graph_def import data_inputs, node_of

if TYPE_CHECKING:
    from autodist.graph._training_graph import TrainingGraph, Variable

__all__ = ["TiedGradient", "tied_gradient"]


@dataclass(frozen=True)
class TiedGradient:
    """A gradient that is the sum of dense terms and of rows.

    Attributes:
        mark: Of the sum.
        dense: The dense terms.
        values: The rows.
        indices: Their numbers.

    """

    mark: str
    dense: tuple[str, ...]
    values: str
    indices: str


def tied_gradient(graph: TrainingGraph, variable: Variable) -> TiedGradient | None:
    """The terms of a variable's gradient, if it is tied and no other gradient of the step follows from it."""
    mark = variable.gradients[0].dense if len(variable.gradients) == 1 else None
    if mark is None:
        return None
    nodes = graph.analysis.nodes
    total = nodes[node_of(nodes[mark].input[0])]
    if total.op != "AddN":
        return None
    terms = {tensor: nodes[node_of(tensor)] for tensor in data_inputs(total)}
    rows = [node for node in terms.values() if node.op == "UnsortedSegmentSum"]
    dense = tuple(tensor for tensor, node in terms.items() if node.op != "UnsortedSegmentSum")
    if len(rows) != 1 or not dense:
        return None
    behind = graph.analysis.reached([mark])
    if any(behind.get(other) for other in graph.analysis.marks if other != mark):
        return None
    values, indices = data_inputs(rows[0])[:2]
    return TiedGradient(mark, dense, values, indices)
