"""Products: nodes that contract the batch, as a matrix product of two tensors with a row per example.

The gradient of a weight matrix is such a product: of a dense layer ``y = x W`` it is ``x^T dy``. TensorFlow writes it
as ``MatMul``, as ``BatchMatMul`` whose leading dims are then summed, or as ``Einsum``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, itemsize, node_of, tensor_dtype, tensor_shape
from autodist.graph.analysis import ROWLIKE, StepAnalysis
from autodist.graph.operators import Kind, is_kind, passes_on
from autodist.graph.products._one_hot import Ids, ids_of

ID_DTYPE = "int32"
"""The element type in which the places of ones travel."""


class Obstacle(Exception):
    """Why a tensor is no sum of products over the batch; its text names the op."""


@dataclass(frozen=True)
class Factor:
    """One factor of a product: a tensor whose dims are contracted or free.

    Attributes:
        tensor: Its name.
        dims: The order of its dims in which the contracted ones come first.
        sizes: Static sizes of the free dims, in that order.
        ids: The places of the ones in its rows, if the rows are one-hot and travel as places; None for all others.
    """

    tensor: str
    dims: tuple[int, ...]
    sizes: tuple[int, ...]
    ids: Ids | None = None

    @property
    def width(self) -> int:
        """Number of elements of one row."""
        return prod(self.sizes)

    @property
    def message_width(self) -> int:
        """Numbers that travel for one row."""
        return self.width if self.ids is None else 1


@dataclass(frozen=True)
class Product:
    """A node with the value ``left^T right``, where both factors have one row per example (or example and time).

    Attributes:
        node: The node.
        left: The factor whose free dims come first in the product.
        right: The other one.
        dtype: Element type of the factors.
        dims: The order of the product's dims, first the left factor's and then the right one's, in the node's value.
    """

    node: str
    left: Factor
    right: Factor
    dtype: str
    dims: tuple[int, ...]

    @property
    def width(self) -> int:
        """Numbers that travel for one pair of rows."""
        return self.left.message_width + self.right.message_width

    @property
    def row_bytes(self) -> int:
        """Bytes that travel for one pair of rows."""
        return sum(factor.message_width * itemsize(self.message_dtype(factor)) for factor in (self.left, self.right))

    def message_dtype(self, factor: Factor) -> str:
        """The element type in which one of its factors travels."""
        return self.dtype if factor.ids is None else ID_DTYPE


def product_of(analysis: StepAnalysis, node: Any, shape: tuple[int, ...]) -> Product | None:
    """The node's value as a product over the batch, None if it is of another kind.

    Args:
        analysis: The flat step.
        node: Any node.
        shape: The static shape of its value.

    Raises:
        Obstacle: It is a product, but not over the batch.
    """
    if node.op == "MatMul":
        return _checked(analysis, node, _mat_mul(node, ("transpose_a", "transpose_b"), 2, shape))
    if _is_batched(node) and len(tensor_shape(analysis.nodes, node.input[0]) or ()) == 2:
        return _checked(analysis, node, _mat_mul(node, ("adj_x", "adj_y"), 2, shape))
    if node.op == "Sum" and _is_batched(analysis.nodes[node_of(node.input[0])]):
        return _checked(analysis, node, _summed(analysis, node, shape))
    if node.op == "Einsum":
        return _checked(analysis, node, _einsum(node, shape))
    if node.op == "UnsortedSegmentSum":
        return _rows_by_number(analysis, node, shape)
    return None


def _is_batched(node: Any) -> bool:
    """Whether it is a batch of matrix products, along dims before those of the matrices."""
    return is_kind(node.op, Kind.PRODUCT) and "adj_x" in node.attr


def rows_per_example(analysis: StepAnalysis, product: Product) -> int | None:
    """How many rows one example gives; None where the traced shapes don't tell."""
    counts = [list(_row_counts(analysis, factor)) for factor in (product.left, product.right)]
    known = max((count for own in counts for count in own if count is not None), default=None)
    # Rows of a sequence that was flattened look like one for each example; a gradient may have open dims in any case.
    is_sure = any(own and None not in own for own in counts)
    return known if known != 1 or is_sure else None


def _row_counts(analysis: StepAnalysis, factor: Factor) -> Iterator[int | None]:
    """Numbers of rows of a factor and of the tensors it is reshaped from: sequences are flattened before products.

    None for each that has other open dims than the batch.
    """
    tensor = factor.tensor
    while True:
        node = analysis.nodes[node_of(tensor)]
        shape = tensor_shape(analysis.nodes, tensor)
        if shape is not None and shape.count(None) > 1:
            yield None
        elif shape is not None and None in shape and factor.width:
            yield prod(size for size in shape if size is not None) // factor.width
        if not passes_on(node.op):
            return
        tensor = node.input[0]


def _named(node: Any) -> str:
    return f"op `{node.name}` ({node.op})"


def _checked(analysis: StepAnalysis, node: Any, product: tuple[Factor, Factor, tuple[int, ...]]) -> Product:
    left, right, dims = product
    for factor in (left, right):
        if analysis.scaling(factor.tensor) not in ROWLIKE:
            raise Obstacle(f"{_named(node)} does not contract the batch: its input `{factor.tensor}` has no rows of it")
    dtype = tensor_dtype(analysis.nodes, left.tensor)
    if dtype.startswith("complex") or dtype != tensor_dtype(analysis.nodes, right.tensor):
        raise Obstacle(f"{_named(node)} multiplies tensors of dtype {dtype}, allowed: real ones of one dtype")
    return Product(node.name, *_coded(analysis, left, right), dtype, dims)


def _coded(analysis: StepAnalysis, left: Factor, right: Factor) -> tuple[Factor, Factor]:
    """The factors, the first that has one-hot rows as ids; the other one keeps numbers, which can be weighted."""
    for factor in (left, right):
        in_order = factor.dims == tuple(range(len(factor.dims)))
        ids = ids_of(analysis, factor.tensor, factor.width) if in_order and len(factor.sizes) == 1 else None
        if ids is not None:
            coded = replace(factor, ids=ids)
            return (coded, right) if factor is left else (left, coded)
    return left, right


def _mat_mul(
    node: Any, transposed: tuple[str, str], rank: int, shape: Sequence[int]
) -> tuple[Factor, Factor, tuple[int, ...]]:
    """The factors of a product over all dims but the last (but one) of two tensors of one rank."""
    if len(shape) != 2:
        raise Obstacle(f"{_named(node)} has a value of {len(shape)} dims, allowed: 2")
    leading, row, column = tuple(range(rank - 2)), rank - 2, rank - 1
    left, right = (tensor for tensor in data_inputs(node)[:2])
    left_dims = (*leading, row, column) if node.attr[transposed[0]].b else (*leading, column, row)
    right_dims = (*leading, column, row) if node.attr[transposed[1]].b else (*leading, row, column)
    return Factor(left, left_dims, (shape[0],)), Factor(right, right_dims, (shape[1],)), (0, 1)


def _summed(analysis: StepAnalysis, node: Any, shape: tuple[int, ...]) -> tuple[Factor, Factor, tuple[int, ...]]:
    """The factors of products of matrices that are summed over all leading dims."""
    inner = analysis.nodes[node_of(node.input[0])]
    left, right = (tensor_shape(analysis.nodes, tensor) for tensor in data_inputs(inner)[:2])
    whole = tensor_shape(analysis.nodes, node.input[0])
    if left is None or right is None or whole is None or left[:-2] != right[:-2]:
        raise Obstacle(f"{_named(inner)} has inputs whose leading dims are not known to be equal")
    if whole[-2:] != shape or not _sums_leading_dims(analysis, node, len(whole) - 2):
        raise Obstacle(f"{_named(node)} is not known to sum over all leading dims of {_named(inner)}")
    return _mat_mul(inner, ("adj_x", "adj_y"), len(whole), shape)


def _rows_by_number(analysis: StepAnalysis, node: Any, shape: tuple[int, ...]) -> Product:
    """Rows that are added up by their numbers, as in the gradient of lookups: a product with one-hot rows."""
    rows, numbers = data_inputs(node)[:2]
    if any(analysis.scaling(tensor) not in ROWLIKE for tensor in (rows, numbers)):
        raise Obstacle(f"{_named(node)} does not contract the batch: its inputs have no rows of it")
    traced = tensor_shape(analysis.nodes, rows)
    if len(shape) != 2 or traced is None or len(traced) != 2 or len(tensor_shape(analysis.nodes, numbers) or ()) != 1:
        raise Obstacle(f"{_named(node)} is not known to add up the rows of a matrix")
    ids = Ids(numbers, tensor_dtype(analysis.nodes, numbers))
    left, right = Factor(numbers, (0,), (shape[0],), ids), Factor(rows, (0, 1), (shape[1],))
    return Product(node.name, left, right, tensor_dtype(analysis.nodes, rows), (0, 1))


def _sums_leading_dims(analysis: StepAnalysis, node: Any, count: int) -> bool:
    """Whether a sum to a matrix goes over the first dims; those that broadcasting has added are the first."""
    dims = analysis.nodes[node_of(node.input[1])]
    if dims.op == "BroadcastGradientArgs":
        return True
    value = constant_value(dims)
    return value is not None and sorted(value.reshape(-1).tolist()) == list(range(count))


def _einsum(node: Any, shape: tuple[int, ...]) -> tuple[Factor, Factor, tuple[int, ...]]:
    equation = node.attr["equation"].s.decode().replace(" ", "")
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != 2 or "." in equation or any(len(set(term)) < len(term) for term in (*terms, output)):
        raise Obstacle(f"{_named(node)} has the equation '{equation}', allowed: two inputs, each label once")
    left, right = terms
    contracted = [label for label in left if label in right and label not in output]
    free = [[label for label in term if label in output] for term in terms]
    alone = [label for label in left + right if label not in output and label not in contracted]
    if not contracted or alone or set(free[0]) & set(free[1]) or len(shape) != len(output):
        raise Obstacle(f"{_named(node)} has the equation '{equation}', which is not a product of two matrices")
    sizes = dict(zip(output, shape, strict=True))
    factors = [
        Factor(tensor, tuple(term.index(label) for label in (*contracted, *kept)), tuple(sizes[k] for k in kept))
        for tensor, term, kept in zip(data_inputs(node), terms, free, strict=True)
    ]
    made = [*free[0], *free[1]]
    return factors[0], factors[1], tuple(made.index(label) for label in output)
