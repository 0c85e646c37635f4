"""Batch scaling: how a tensor of the step scales with the batch, as a physical unit would.

A loss is a mean over the batch, a count of hits is a sum, logits have a row per example. From this follows how the
values of several replicas make the value of the global batch: means are averaged by batch share, sums are added, rows
are concatenated. A value that is no longer a linear function of the batch (the square root of a mean, a ratio of two
sums) is computed from *global* sums and means, so that it equals the single-device value.

The batch dim is recognized by being the only dim that is unknown at tracing time.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from autodist.graph._graph_def import (
    constant_value,
    data_inputs,
    node_of,
    num_outputs,
    output_shape,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.batch import SCALING_OF, Rows, Value
from autodist.graph.batch import Kind as BatchKind
from autodist.graph.operators import (
    Asks,
    Kind,
    Linearity,
    Passes,
    Reducer,
    is_kind,
    meaning,
    passes_on,
)


class BatchScaling(enum.Enum):
    """How a tensor depends on the batch."""

    CONSTANT = "constant"
    """Does not depend on the batch."""
    SAME = "same"
    """Computed from the batch, but equal whatever its size: a ratio of sizes, a static dim."""
    ROWS = "rows"
    """One dim is the batch."""
    SUBSET = "subset"
    """One dim is a data-dependent selection of the batch (``tf.boolean_mask``)."""
    MET = "met"
    """One dim is the batch, but a replica's rows differ from those of one device, because they mix examples."""
    SHAPE = "shape"
    """A vector of sizes, one of which is the batch size."""
    COUNT = "count"
    """Proportional to the batch size."""
    SUM = "sum"
    """A sum over the batch."""
    MEAN = "mean"
    """A mean over the batch."""
    MIXED = "mixed"
    """Anything else."""


ROWLIKE = frozenset({BatchScaling.ROWS, BatchScaling.SUBSET, BatchScaling.MET})
"""The scalings of tensors that have a dim for the batch."""

_INVARIANT = frozenset({BatchScaling.CONSTANT, BatchScaling.SAME})
_ADDITIVE = frozenset({BatchScaling.COUNT, BatchScaling.SUM})
_LINEAR = _ADDITIVE | {BatchScaling.MEAN, BatchScaling.SAME}

_SIZES = frozenset({Asks.LENGTHS, Asks.EACH, Asks.COUNT})
_NUMBERS = ("int", "uint", "bool")
"""The first letters of types without fractions."""


def adds_up_rows(op: str) -> bool:
    """Whether an operator gives sums of rows themselves, not of products of them."""
    return meaning(op).reducer is Reducer.SUM and is_kind(op, Kind.REDUCTION, Kind.SCATTER)


class ScalingRules:
    """The scalings of a node's outputs from those of its inputs.

    Args:
        nodes: The flat graph, by name.
        scaling_of: The scaling of a tensor as one consumer sees it.
        value_of: Where a tensor of the forward pass has the batch; None for all others.
        is_multiple: Whether a number is known to be a multiple of that of the examples.
    """

    def __init__(
        self,
        nodes: dict[str, Any],
        scaling_of: Callable[[str], BatchScaling],
        value_of: Callable[[str], Value],
        is_multiple: Callable[[str], bool],
    ) -> None:
        self.nodes = nodes
        self.of = scaling_of
        self.value_of = value_of
        self.is_multiple = is_multiple

    def outputs(self, node: Any) -> tuple[BatchScaling, ...]:
        """The scalings of all outputs of a node."""
        if SCALING_OF in node.attr:
            return (self.of(node.attr[SCALING_OF].s.decode()),)
        count = max(1, num_outputs(node))
        inputs = [self.of(tensor) for tensor in data_inputs(node)]
        return tuple(self._output(node, inputs, index) for index in range(count))

    def _output(self, node: Any, inputs: list[BatchScaling], index: int) -> BatchScaling:
        shape = output_shape(node, index)
        if meaning(node.op).asks in _SIZES:
            return self._sizes(node, inputs)
        if shape is None or None in shape:
            return self._without_rows(node, inputs) or self._rows(node, inputs, index)
        if ROWLIKE & set(inputs):
            return self._reduced(node, inputs, index)
        if BatchScaling.SHAPE in inputs:
            return self._of_shape(node)
        if node.op == "FloorDiv" and inputs[0] is BatchScaling.COUNT and inputs[1] in _INVARIANT:
            return BatchScaling.COUNT if self.is_multiple(node.name) else BatchScaling.MIXED
        if self._is_rounded(node) and set(inputs) - _INVARIANT:
            return BatchScaling.MIXED
        return _combined(node, inputs, self._zeros(node) if meaning(node.op).linearity is Linearity.JOINT else 0)

    def _is_rounded(self, node: Any) -> bool:
        """Whether a node turns other values into whole numbers or truth values: replicas' results don't add up then."""
        is_cast = passes_on(node.op, Passes.TYPE)
        if not is_cast and meaning(node.op).reducer is not Reducer.MEAN:
            return False
        given, made = tensor_dtype(self.nodes, data_inputs(node)[0]), tensor_dtype(self.nodes, node.name)
        is_same = is_cast and given.startswith(_NUMBERS) and (made != "bool" or given == made)
        return made.startswith(_NUMBERS) and not is_same

    def _zeros(self, node: Any) -> int:
        """How many terms of an addition are zeros, with which running sums start."""
        terms = (constant_value(self.nodes[node_of(tensor)]) for tensor in data_inputs(node))
        return sum(term is not None and term.shape == () and not term for term in terms)

    @staticmethod
    def _without_rows(node: Any, inputs: list[BatchScaling]) -> BatchScaling | None:
        """The scaling of a tensor of unknown length that is made of what has no batch dim: its length is not the batch.

        As of the parts of a table's gradient, of rows that are the same whatever the batch; None if it may have one.
        """
        if not set(inputs) - _INVARIANT:
            return BatchScaling.SAME
        is_linear = meaning(node.op).linearity is Linearity.FIRST and inputs[0] in _LINEAR - {BatchScaling.COUNT}
        return inputs[0] if is_linear and not set(inputs[1:]) - _INVARIANT else None

    def _rows(self, node: Any, inputs: list[BatchScaling], index: int) -> BatchScaling:
        """The scaling of a tensor with a batch dim: in a backward pass, that of its inputs."""
        value = self.value_of(f"{node.name}:{index}")
        if value is BatchKind.MET:
            return BatchScaling.MET
        selected = value.selected if isinstance(value, Rows) else BatchScaling.SUBSET in inputs
        return BatchScaling.SUBSET if selected else BatchScaling.ROWS

    def _sizes(self, node: Any, inputs: list[BatchScaling]) -> BatchScaling:
        if inputs[0] not in ROWLIKE:
            return BatchScaling.SAME
        if node.op == "Size" and inputs[0] is not BatchScaling.MET:
            return BatchScaling.SUM if inputs[0] is BatchScaling.SUBSET else BatchScaling.COUNT
        return BatchScaling.SHAPE

    def _reduced(self, node: Any, inputs: list[BatchScaling], index: int) -> BatchScaling:
        """The scaling of a tensor without batch dim that is made from tensors with one."""
        if self.value_of(f"{node.name}:{index}") is BatchKind.MET:
            return BatchScaling.MIXED
        if meaning(node.op).reducer is Reducer.SUM:
            return BatchScaling.SUM
        if node.op == "Mean" and inputs[0] is BatchScaling.ROWS and not self._is_rounded(node):
            return BatchScaling.MEAN
        if meaning(node.op).gives_statistics and index in (1, 2):
            return BatchScaling.MEAN
        return BatchScaling.MIXED

    def _of_shape(self, node: Any) -> BatchScaling:
        """The scaling of a node that computes with the shape of a tensor with a batch dim."""
        if passes_on(node.op, Passes.SAME, Passes.TYPE):
            return BatchScaling.SHAPE
        if node.op == "Prod" and self.nodes[node_of(node.input[0])].op == "Pack":
            return self._size_of_pack(self.nodes[node_of(node.input[0])])
        dims = self._shape_dims(node.input[0])
        if dims is None:
            return BatchScaling.MIXED
        source, sizes = dims
        additive = BatchScaling.SUM if source is BatchScaling.SUBSET else BatchScaling.COUNT
        if node.op == "Prod":
            return additive
        picked = self._picked(node, sizes)
        if picked is None:
            return BatchScaling.MIXED
        if None not in picked:
            return BatchScaling.SAME
        return additive if not output_shape(node) else BatchScaling.SHAPE

    def _size_of_pack(self, pack: Any) -> BatchScaling:
        """The scaling of the product of dims if exactly one of them varies."""
        return next(e for e in map(self.of, data_inputs(pack)) if e in _ADDITIVE)

    def _shape_dims(self, tensor: str) -> tuple[BatchScaling, tuple[int | None, ...]] | None:
        """The scaling and the static shape of the tensor whose shape this is."""
        node = self.nodes[node_of(tensor)]
        while passes_on(node.op, Passes.SAME, Passes.TYPE):
            node = self.nodes[node_of(node.input[0])]
        if node.op != "Shape":
            return None
        shape = tensor_shape(self.nodes, node.input[0])
        return None if shape is None else (self.of(node.input[0]), shape)

    def _picked(self, node: Any, sizes: tuple[int | None, ...]) -> tuple[int | None, ...] | None:
        """The entries of a shape that a slice takes."""
        if node.op == "GatherV2":
            numbers = constant_value(self.nodes[node_of(node.input[1])])
            return None if numbers is None else tuple(sizes[int(k)] for k in numbers.reshape(-1))
        if node.op != "StridedSlice":
            return None
        start, end = (constant_value(self.nodes[node_of(tensor)]) for tensor in node.input[1:3])
        if start is None or end is None:
            return None
        if node.attr["shrink_axis_mask"].i:
            return (sizes[int(start[0])],)
        begin = None if node.attr["begin_mask"].i else int(start[0])
        stop = None if node.attr["end_mask"].i else int(end[0])
        return sizes[begin:stop]


def _combined(node: Any, inputs: list[BatchScaling], zeros: int) -> BatchScaling:
    """The scaling of a function of sums, means and constants."""
    varying = [scaling for scaling in inputs if scaling not in _INVARIANT]
    if not varying:
        return BatchScaling.SAME
    if BatchScaling.MIXED in varying:
        return BatchScaling.MIXED
    if node.op == "Pack" and len(varying) == 1 < len(inputs) and varying[0] in _ADDITIVE:
        return BatchScaling.SHAPE
    if node.op == "Prod" and output_shape(node) == () and inputs[0] in _ADDITIVE:
        return inputs[0]  # the shape of a vector: one entry
    if meaning(node.op).linearity is Linearity.FIRST:
        return inputs[0] if inputs[0] in _LINEAR and len(varying) == 1 else BatchScaling.MIXED
    if meaning(node.op).linearity is Linearity.JOINT:
        return _added(varying, len(inputs) - zeros)
    if node.op == "Mul":
        return _multiplied(varying)
    if meaning(node.op).linearity is Linearity.NUMERATOR:
        return _divided(inputs[0], inputs[1])
    return BatchScaling.MIXED


def _added(varying: list[BatchScaling], num_inputs: int) -> BatchScaling:
    kinds = set(varying)
    if kinds == {BatchScaling.MEAN}:
        return BatchScaling.MEAN  # batch shares add up to one, so a constant term survives the averaging
    if len(varying) == num_inputs and kinds <= _ADDITIVE:
        return BatchScaling.COUNT if kinds == {BatchScaling.COUNT} else BatchScaling.SUM
    return BatchScaling.MIXED


def _multiplied(varying: list[BatchScaling]) -> BatchScaling:
    if len(varying) == 1:
        return varying[0]
    if sorted(scaling.value for scaling in varying) == ["count", "mean"]:
        return BatchScaling.SUM
    return BatchScaling.MIXED


def _divided(numerator: BatchScaling, denominator: BatchScaling) -> BatchScaling:
    if denominator in _INVARIANT:
        return numerator
    if denominator is BatchScaling.COUNT:
        return {BatchScaling.SUM: BatchScaling.MEAN, BatchScaling.COUNT: BatchScaling.SAME}.get(
            numerator, BatchScaling.MIXED
        )
    return BatchScaling.MIXED
