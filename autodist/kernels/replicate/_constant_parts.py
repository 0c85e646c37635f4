"""Sums of what comes from the batch and of what does not, such as the gradient of a loss and of a penalty of weights.

Each replica has the second part whole. Where replicas' values are added up as they are, it would count once for each.
"""

from __future__ import annotations

from typing import Any

from autodist.graph import StepAnalysis, data_inputs, node_of, tensor_dtype, tensor_shape
from autodist.graph.operators import Linearity, RangeUse, meaning


def has_constant_part(analysis: StepAnalysis, tensor: str) -> bool:
    """Whether a gradient is a sum of terms of which some do not depend on the batch, or is made of such a sum.

    The gradient of a shard is made of it, and that of a variable which the step casts or scales before it uses it.

    Args:
        analysis: The step.
        tensor: The gradient, or a value of which it is made.
    """
    if node_of(tensor) not in analysis.scalings:
        return False
    stack, seen = [tensor], set[str]()
    while stack:
        tensor = stack.pop()
        if node_of(tensor) not in analysis.scalings:
            return True
        if tensor in seen or _has_rows(analysis, tensor):
            continue
        seen.add(tensor)
        node = analysis.nodes[node_of(tensor)]
        stack.extend(data_inputs(node)[k] for k in linear_inputs(analysis, node))
    return False


def linear_inputs(analysis: StepAnalysis, node: Any) -> tuple[int, ...]:
    """The positions of the inputs in which an operator of a backward pass is linear jointly; empty if it is not.

    It is linear in what comes from behind. That is the only input that depends on the batch, or the operator adds.
    """
    inputs, known = data_inputs(node), meaning(node.op)
    if known.adds:
        return tuple(range(len(inputs)))
    if tensor_dtype(analysis.nodes, node.name).startswith(("int", "uint", "bool")):
        return ()  # a number of rows, of which a replica's share would be rounded
    if known.linearity is Linearity.JOINT:
        return tuple(range(len(inputs) - (known.range_use is RangeUse.JOINS)))  # the input after them is the dim
    varying = [k for k, tensor in enumerate(inputs) if node_of(tensor) in analysis.scalings]
    return tuple(varying) if len(varying) == 1 else ()


def _has_rows(analysis: StepAnalysis, tensor: str) -> bool:
    """Whether a tensor has rows of examples: a constant that is added to each row counts for each."""
    shape = tensor_shape(analysis.nodes, tensor)
    return shape is None or None in shape
