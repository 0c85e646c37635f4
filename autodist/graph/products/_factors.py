"""Sufficient factors: gradients that are products over the batch (Poseidon; thesis chapter 3).

The gradient of an m x n weight is ``left^T right``, where ``left`` is k x m and ``right`` is k x n for k examples. The
two factors hold the same information as the gradient, in k (m + n) numbers instead of m n. The rows of several
replicas are simply concatenated, and the product of the results is the sum of the replicas' gradients.

What lies between the products and the gradient's mark (a cast, a reshape, the gradient of a regularizer that is added)
is linear and does not depend on the batch, so it can be computed from the products of the whole batch: the *tail*.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, node_of, tensor_shape
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import Gradient
from autodist.graph.analysis import BatchScaling, StepAnalysis
from autodist.graph.operators import Kind, Linearity, Passes, is_kind, meaning, passes_on
from autodist.graph.products._products import Obstacle, Product, product_of, rows_per_example


@dataclass(frozen=True)
class FactoredGradient:
    """One gradient as products over the batch, and the nodes that compute it from these.

    Attributes:
        mark: The gradient's mark.
        products: The products; several where a weight is used several times.
        tail: The nodes between the products and the mark, inputs before consumers.
        added: Tensors on the tail that do not depend on the batch: gradients of regularizers, scales.
    """

    mark: str
    products: tuple[Product, ...]
    tail: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True)
class Factors:
    """Whether and how a variable's gradients are products over the batch.

    Attributes:
        gradients: One per gradient of the variable; empty if there is an obstacle.
        obstacle: Why one of them is no product, with the op; None if all are.
        rows: By product, how many rows one example gives, 1 for a dense layer on vectors, the length for one on
            sequences; None where the traced shapes don't tell.
    """

    gradients: tuple[FactoredGradient, ...] = ()
    obstacle: str | None = None
    rows: tuple[int | None, ...] = ()

    @property
    def rows_per_example(self) -> int | None:
        """How many rows one example gives at most; None where the traced shapes don't tell."""
        known = [count for count in self.rows if count is not None]
        return max(known, default=None) if len(known) == len(self.rows) else None

    @property
    def width(self) -> int:
        """Numbers per row, m + n for an m x n weight, 1 + n if its rows are one-hot; of all products together."""
        return sum(product.width for product in self._products)

    @property
    def bytes_per_example(self) -> int:
        """How many bytes travel for each example instead of the gradient; a row each where it isn't known better."""
        return sum((rows or 1) * product.row_bytes for rows, product in zip(self.rows, self._products, strict=True))

    @property
    def _products(self) -> list[Product]:
        return [product for gradient in self.gradients for product in gradient.products]


def factors_of(graph: TrainingGraph, variable: str) -> Factors:
    """How the gradients of a variable factor.

    Args:
        graph: G.
        variable: Name of one of its trainable variables.

    Example:
        >>> import tensorflow as tf
        >>> from autodist.graph import VariableNames, capture, factors_of
        >>> w = tf.Variable(tf.ones([3, 2]), name="w")
        >>> def step(x):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_mean(x @ w)
        ...     w.assign_sub(tape.gradient(loss, w))
        >>> factors = factors_of(capture(step, [tf.TensorSpec([8, 3])], VariableNames()).graph, "w")
        >>> factors.gradients[0].products[0].left.tensor, factors.width, factors.rows_per_example
        ('x', 5, 1)
    """
    described = graph.variable(variable)
    if graph.graph_def is None:
        return Factors(obstacle="the graph's ops are not known")
    try:
        found = tuple(_factored(graph, gradient, described.shape) for gradient in described.gradients)
    except Obstacle as obstacle:
        return Factors(obstacle=str(obstacle))
    rows = tuple(rows_per_example(graph.analysis, product) for gradient in found for product in gradient.products)
    return Factors(found, None, rows)


def _factored(graph: TrainingGraph, gradient: Gradient, shape: tuple[int, ...]) -> FactoredGradient:
    if gradient.dense is None:
        raise Obstacle("its gradient is sparse: it has rows of the variable, which travel as they are")
    _refuse_intermediate(graph, gradient.dense)
    search = _Search(graph.analysis)
    search.visit(graph.analysis.nodes[gradient.dense].input[0], shape)
    if not search.products:
        raise Obstacle("its gradient does not depend on the batch")
    return FactoredGradient(gradient.dense, tuple(search.products), tuple(search.tail), tuple(search.added))


def _refuse_intermediate(graph: TrainingGraph, mark: str) -> None:
    """Refuse a gradient that replicas compute with: that of an inner step, or of a penalty on gradients."""
    analysis = graph.analysis
    dependence = analysis.dependence
    for name in _behind(graph, mark):
        of_replica = dependence.is_reduced(name) or not dependence.is_evaluable(name)
        if name in analysis.scalings and of_replica and name not in analysis.writes:
            node = analysis.nodes[name]
            raise Obstacle(f"op `{name}` ({node.op}) computes with its gradient and the batch: a second derivative")


def _behind(graph: TrainingGraph, mark: str) -> list[str]:
    """The nodes that use a mark's data and that the step needs, in their order."""
    consumers, position = graph.update_regions.consumers, graph.update_regions.position
    found: set[str] = set()
    stack = [mark]
    while stack:
        name = stack.pop()
        # What comes back to an earlier node goes around a loop.
        following = [other for other in consumers.get(name, ()) if position[other] > position[name]]
        stack += [other for other in following if other not in found]
        found.update(following)
    return sorted(found, key=position.__getitem__)


class _Search:
    """Walks from a gradient back to the products that it is a sum of."""

    def __init__(self, analysis: StepAnalysis) -> None:
        self.analysis = analysis
        self.products: list[Product] = []
        self.tail: list[str] = []
        self.added: list[str] = []
        self._seen: set[str] = set()

    def visit(self, tensor: str, shape: tuple[int, ...]) -> None:
        """Find the products in a tensor of this static shape.

        Raises:
            Obstacle: The tensor is not a sum of products.
        """
        if self.analysis.scaling(tensor) is BatchScaling.CONSTANT:
            self.added.append(tensor)
            return
        node = self.analysis.nodes[node_of(tensor)]
        if node.name in self._seen:
            return
        self._seen.add(node.name)
        product = product_of(self.analysis, node, shape)
        if product is not None:
            self.products.append(product)
            return
        for part, its_shape in self._parts(node, shape):
            self.visit(part, its_shape)
        self.tail.append(node.name)

    def _parts(self, node: Any, shape: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
        """The inputs of a node of the tail that depend on the batch, and their shapes; constant ones are noted."""
        inputs = data_inputs(node)
        varying = [t for t in inputs if self.analysis.scaling(t) is not BatchScaling.CONSTANT]
        linear = _is(node.op, Linearity.JOINT) or (len(varying) == 1 and varying[0] == self._argument(node))
        if not linear:
            raise Obstacle(f"op `{node.name}` ({node.op}) is neither a product over the batch nor linear in one")
        self.added.extend(t for t in inputs if t not in varying)
        return [(tensor, self._shape_of(node, tensor, shape)) for tensor in varying]

    def _argument(self, node: Any) -> str | None:
        """The input that a node is linear in."""
        inputs = data_inputs(node)
        if node.op == "Mul":
            return next((t for t in inputs if self.analysis.scaling(t) is not BatchScaling.CONSTANT), None)
        is_linear = _is(node.op, Linearity.FIRST, Linearity.NUMERATOR) or passes_on(node.op, Passes.FORM)
        return inputs[0] if is_linear or node.op == "Transpose" else None

    def _shape_of(self, node: Any, tensor: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The static shape of an input of a node whose value has `shape`."""
        traced = tensor_shape(self.analysis.nodes, tensor)
        if _is(node.op, Linearity.FIRST) or meaning(node.op).has_one_shape:
            return shape
        if passes_on(node.op, Passes.FORM):
            return shape if traced is None else _filled(traced, prod(shape), node)
        if node.op == "Transpose":
            order = self._order(node)
            return tuple(shape[order.index(dim)] for dim in range(len(shape)))
        others = [tensor_shape(self.analysis.nodes, other) for other in data_inputs(node) if other != tensor]
        if traced == shape or all(other == () for other in others):
            return shape
        raise Obstacle(f"op `{node.name}` ({node.op}) may broadcast the product")

    def _order(self, node: Any) -> list[int]:
        """The order of dims of a transpose; TensorFlow inverts it in the gradient of another."""
        source = self.analysis.nodes[node_of(node.input[1])]
        inverted = source.op == "InvertPermutation"
        value = constant_value(self.analysis.nodes[node_of(source.input[0])] if inverted else source)
        if value is None:
            raise Obstacle(f"op `{node.name}` ({node.op}) has an order of dims that is not constant")
        order: list[int] = value.reshape(-1).tolist()
        return [order.index(dim) for dim in range(len(order))] if inverted else order


def _filled(traced: tuple[int | None, ...], elements: int, node: Any) -> tuple[int, ...]:
    """A traced shape with its one unknown dim from the number of elements."""
    known = prod(size for size in traced if size is not None)
    if traced.count(None) > 1 or (None in traced and (not known or elements % known)):
        raise Obstacle(f"op `{node.name}` ({node.op}) reshapes a tensor of unknown shape")
    return tuple(elements // known if size is None else size for size in traced)


def _is(op: str, *kinds: Linearity) -> bool:
    """Whether an operator works element by element and is linear in one of these ways."""
    return is_kind(op, Kind.ELEMENTWISE) and meaning(op).linearity in kinds
