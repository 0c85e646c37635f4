"""Means over examples that data have picked, and sums of unlike losses: each becomes a sum over the batch.

The mean over the rows that a mask picks is a ratio of two sums, whose denominator no gradient flows through: with the
count of the whole batch, the replicas' parts add up. So such a mean is divided by its count by hand. In the backward
pass TensorFlow does that already, and takes the count of the whole batch there too, because it is data.

A loss that adds a plain mean and something that is a sum over the batch has gradients of both kinds at once. There the
plain means become sums as well: their counts are marked with :data:`WHOLE`, and count the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from autodist.graph._graph_def import (
    constant_value,
    data_inputs,
    node_of,
    output_shape,
    output_types,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph._nodes import NodeList
from autodist.graph.analysis._batch_scaling import BatchScaling
from autodist.graph.analysis._dependence import WHOLE
from autodist.graph.analysis._reduction import reductions_of, terms_of
from autodist.graph.analysis._step_analysis import StepAnalysis
from autodist.graph.batch import BY_REPLICA
from autodist.graph.operators import Kind, Linearity, Passes, is_kind, meaning, passes_on


def sum_up_means(analysis: StepAnalysis) -> bool:
    """Change the graph of an analysis where its losses need it.

    Returns:
        Whether it was changed: then `analysis` is out of date.
    """
    picked = [node for node in analysis.nodes.values() if _is_mean(analysis, node, BatchScaling.SUBSET)]
    added = NodeList()
    for node in picked:
        _divide_by_count(analysis, node, added)
    analysis.graph_def.node.extend(added.nodes)
    if picked:
        analysis = StepAnalysis(analysis.graph_def, analysis.handles, analysis.split)
    return _sum_unlike_losses(analysis) or bool(picked)


def _is_mean(analysis: StepAnalysis, node: Any, scaling: BatchScaling) -> bool:
    """Whether a node is the mean over all examples of a forward pass, of rows of this kind."""
    if node.op != "Mean" or BY_REPLICA in node.attr or analysis.dependence.is_backward(node.name):
        return False
    return analysis.scaling(node.input[0]) is scaling and analysis.scaling(node.name) in (
        BatchScaling.MIXED,
        BatchScaling.MEAN,
    )


def _divide_by_count(analysis: StepAnalysis, node: Any, added: NodeList) -> str | None:
    """Have a mean be a sum, divided by the number of elements; returns the tensor of that, None if nothing was done."""
    name, (tensor, axes) = node.name, data_inputs(node)
    rest = _elements_of_results(analysis, tensor, axes)
    if rest is None:
        return None
    dtype, shape = tensor_dtype(analysis.nodes, name), output_shape(node)
    index = tensor_dtype(analysis.nodes, axes)
    keeps = node.attr["keep_dims"].b
    total = added.add(
        "Sum", f"{name}/sum", [tensor, axes], T=dtype, Tidx=index, keep_dims=keeps, _output_shapes=[shape]
    )
    size = added.add("Size", f"{name}/size", [tensor], T=dtype, out_type="int32", _output_shapes=[()])
    count = added.add("Cast", f"{name}/float", [size], SrcT="int32", DstT=dtype, _output_shapes=[()])
    if rest > 1:
        divisor = added.constant(f"{name}/rest", rest, dtype)
        count = added.add("RealDiv", f"{name}/count", [count, divisor], T=dtype, _output_shapes=[()])
    added.add("RealDiv", name, [total, count], T=dtype, _output_shapes=[shape])
    quotient = added.nodes.pop()
    quotient.input.extend(t for t in node.input if t.startswith("^"))
    node.CopyFrom(quotient)
    return count


def _elements_of_results(analysis: StepAnalysis, tensor: str, axes: str) -> int | None:
    """How many elements the means of a tensor have, if all its dims but that of the batch are known."""
    shape, dims = tensor_shape(analysis.nodes, tensor), constant_value(analysis.nodes[node_of(axes)])
    if shape is None or dims is None:
        return None
    gone = {int(dim) % len(shape) for dim in dims.reshape(-1)}
    kept = [size for dim, size in enumerate(shape) if dim not in gone]
    return None if None in kept else prod(size for size in kept if size is not None)


# Losses of several kinds ---------------------------------------------------------------------------------------------


def _sum_unlike_losses(analysis: StepAnalysis) -> bool:
    """Have the plain means among the terms of a loss be sums, where others are; returns whether any became one."""
    unlike: dict[str, None] = {}
    for targets in analysis.targets.values():
        kinds = {kind for target in targets for kind in reductions_of(analysis.dependence, target)}
        if kinds != {"mean", "sum"}:
            continue
        means = {term: None for target in targets for term in terms_of(analysis.dependence, target, BatchScaling.MEAN)}
        if not all(_can_be_sum(analysis, term) for term in means):
            continue
        unlike.update(means)
    added = NodeList()
    for term in unlike:
        _sum_up(analysis, analysis.nodes[node_of(term)], added)
    analysis.graph_def.node.extend(added.nodes)
    return bool(unlike)


def _can_be_sum(analysis: StepAnalysis, term: str) -> bool:
    node = analysis.nodes[node_of(term)]
    if meaning(node.op).linearity is Linearity.NUMERATOR:
        return (
            analysis.scaling(node.input[0]) is BatchScaling.SUM
            and analysis.scaling(node.input[1]) is BatchScaling.COUNT
        )
    if not _is_mean(analysis, node, BatchScaling.ROWS):
        return False
    return _elements_of_results(analysis, *data_inputs(node)[:2]) is not None


def _sum_up(analysis: StepAnalysis, node: Any, added: NodeList) -> None:
    if meaning(node.op).linearity is Linearity.NUMERATOR:
        _mark(analysis.nodes[node_of(node.input[1])])
        return
    source = node.input[0]
    count = _divide_by_count(analysis, node, added)
    _mark(next(other for other in added.nodes if other.name == count))
    for divisor in _counts_behind(analysis, source):
        _mark(divisor)


def _counts_behind(analysis: StepAnalysis, tensor: str) -> Iterator[Any]:
    """Divisors of the gradients of a tensor's mean in the backward pass: floats made from its shape alone."""
    for name in analysis.consumers.get(node_of(tensor), ()):
        node = analysis.nodes[name]
        if not is_kind(node.op, Kind.SHAPE) or node.input[0] != tensor:
            continue
        stack, seen = [name], set[str]()
        while stack:
            for consumer in analysis.consumers.get(stack.pop(), ()):
                if consumer in seen:
                    continue
                seen.add(consumer)
                if passes_on(analysis.nodes[consumer].op, Passes.TYPE) and _divides_gradients(analysis, consumer):
                    yield analysis.nodes[consumer]
                elif _is_of_whole_numbers(analysis.nodes[consumer]):
                    stack.append(consumer)


def _is_of_whole_numbers(node: Any) -> bool:
    from tensorflow.core.framework import types_pb2

    types = output_types(node)
    return bool(types) and {types_pb2.DT_INT32, types_pb2.DT_INT64}.issuperset(types)


def _divides_gradients(analysis: StepAnalysis, name: str) -> bool:
    consumers = [analysis.nodes[consumer] for consumer in analysis.consumers.get(name, ())]
    return bool(consumers) and all(_divides(c, name) and analysis.dependence.is_backward(c.name) for c in consumers)


def _divides(node: Any, name: str) -> bool:
    return meaning(node.op).linearity is Linearity.NUMERATOR and node_of(node.input[1]) == name


def _mark(node: Any) -> None:
    node.attr[WHOLE].b = True
