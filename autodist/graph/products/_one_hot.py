"""One-hot rows: the factor of a gradient that one number per row describes.

A layer on one-hot codes multiplies its weights with rows that each have a single one. The place of the one describes
the row, so only the place travels; and a product with such rows is a sum of the other factor's rows, by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from autodist.graph._graph_def import constant_value, node_of, tensor_dtype, tensor_shape
from autodist.graph.analysis import StepAnalysis
from autodist.graph.operators import Passes, passes_on


@dataclass(frozen=True)
class Ids:
    """Where the ones of one-hot rows are.

    Attributes:
        tensor: Its elements, in their order, are the places, row by row. One that is outside of a row means zeros.
        dtype: Dtype of the tensor.
    """

    tensor: str
    dtype: str


def ids_of(analysis: StepAnalysis, tensor: str, width: int) -> Ids | None:
    """Where the ones in a tensor's rows are, None if they are not known to be one-hot.

    Args:
        analysis: The flat step.
        tensor: Its elements, in their order, are rows.
        width: The length of a row.
    """
    node = analysis.nodes[node_of(tensor)]
    while passes_on(node.op, Passes.SAME, Passes.FORM, Passes.TYPE):
        node = analysis.nodes[node_of(node.input[0])]
    if node.op != "OneHot" or not _makes_rows(analysis, node, width):
        return None
    return Ids(str(node.input[0]), tensor_dtype(analysis.nodes, node.input[0]))


def _makes_rows(analysis: StepAnalysis, node: Any, width: int) -> bool:
    """Whether a ``OneHot`` makes rows of this length, of one and zeros, along its last dim."""
    ids, depth, on, off = node.input[:4]
    values = [constant_value(analysis.nodes[node_of(tensor)]) for tensor in (depth, on, off)]
    return _is_last(analysis, node.attr["axis"].i, ids) and _numbers(values) == [width, 1.0, 0.0]


def _is_last(analysis: StepAnalysis, axis: int, ids: str) -> bool:
    shape = tensor_shape(analysis.nodes, ids)
    return axis == -1 or (shape is not None and axis == len(shape))


def _numbers(values: Sequence[Any]) -> list[float | None]:
    return [None if value is None else float(value) for value in values]
