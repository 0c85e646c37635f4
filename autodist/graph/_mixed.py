"""Mixed gradients: of a table in which rows are looked up and which is multiplied with as a whole besides.

A language model that shares the table of its inputs with its predictions gets such a gradient: that of the product is
as large as the table and exists when the backward pass begins, those of the lookups are few rows and exist at its very
end. Tracing adds the two up, so that the sum is large and late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autodist.graph._extent import Extent
from autodist.graph._factors import is_intermediate
from autodist.graph._graph_def import data_inputs, node_of, output_shape
from autodist.graph._training_graph import TrainingGraph

__all__ = ["AddedRows", "MixedGradient", "mixed_gradients"]


@dataclass(frozen=True)
class AddedRows:
    """A term of a gradient that consists of rows of the variable, before they are added up.

    Attributes:
        node: The node that adds them up, an ``UnsortedSegmentSum``.
        values: The tensor of the rows.
        indices: The tensor of their numbers.
    """

    node: str
    values: str
    indices: str


@dataclass(frozen=True)
class MixedGradient:
    """A dense gradient that is a sum of rows and of something else.

    Attributes:
        mark: The gradient's mark.
        rows: The terms that are rows.
        others: The other terms.
    """

    mark: str
    rows: tuple[AddedRows, ...]
    others: tuple[str, ...]


def mixed_gradients(graph: TrainingGraph, variable: str) -> tuple[MixedGradient, ...]:
    """Those gradients of a variable that are mixed.

    Args:
        graph: G.
        variable: Name of one of its trainable variables.

    Example:
        >>> import tensorflow as tf
        >>> from autodist.graph import VariableNames, capture, mixed_gradients
        >>> table = tf.Variable(tf.ones([5, 2]), name="table")
        >>> def step(rows):
        ...     with tf.GradientTape() as tape:
        ...         found = tf.gather(table, rows)
        ...         loss = tf.reduce_mean(tf.matmul(found, table, transpose_b=True) ** 2)
        ...     table.assign_sub(tape.gradient(loss, table))
        >>> captured = capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames())
        >>> (gradient,) = mixed_gradients(captured.graph, "table")
        >>> len(gradient.rows), len(gradient.others)
        (1, 1)
    """
    return tuple(_mixed(graph, variable)) if graph.graph_def is not None else ()


def _mixed(graph: TrainingGraph, variable: str) -> Iterator[MixedGradient]:
    described = graph.variable(variable)
    nodes, extent = graph.analysis.nodes, graph.analysis.extent
    for gradient in described.gradients:
        total = None if gradient.dense is None else nodes[node_of(nodes[gradient.dense].input[0])]
        if gradient.dense is None or total is None or total.op != "AddN":
            continue
        terms = [(tensor, _rows(graph, tensor, described.shape)) for tensor in data_inputs(total)]
        rows = tuple(found for _, found in terms if found is not None)
        others = tuple(tensor for tensor, found in terms if found is None)
        varies = any(extent(tensor) is not Extent.CONSTANT for tensor in others)  # else nothing dense has to travel
        if rows and varies and not _is_looked_at(graph, variable, gradient.dense):
            yield MixedGradient(gradient.dense, rows, others)


def _is_looked_at(graph: TrainingGraph, variable: str, mark: str) -> bool:
    """Whether not only the update takes the gradient: of a table in parts, others would see one worker's rows."""
    return is_intermediate(graph, mark) or bool(graph.update_regions.of(variable).observers)


def _rows(graph: TrainingGraph, tensor: str, shape: tuple[int, ...]) -> AddedRows | None:
    node = graph.analysis.nodes[node_of(tensor)]
    if node.op != "UnsortedSegmentSum" or output_shape(node) != shape:
        return None
    values, indices, _ = data_inputs(node)
    if len(output_shape(graph.analysis.nodes[node_of(indices)]) or ()) != 1:
        return None
    return AddedRows(node.name, values, indices)
