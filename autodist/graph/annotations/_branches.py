"""Code that is traced inside a branch or a loop, and the values that it takes from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autodist.graph.operators import Handle, Kind, is_kind, meaning


def in_control_flow() -> bool:
    """Whether the current graph is that of a branch or a loop, or of a function that is called there."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_v2_func_graphs as func_graphs

    kinds = (func_graphs.CondBranchFuncGraph, func_graphs.WhileBodyFuncGraph, func_graphs.WhileCondFuncGraph)
    graph = tf.compat.v1.get_default_graph()
    while graph is not None:
        if isinstance(graph, kinds):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def made_of(tensor: Any, is_leaf: Callable[[Any], bool]) -> bool:
    """Whether a tensor depends only on variables, constants and certain ops, in this graph or those around it.

    Args:
        tensor: A tensor of a graph that is being traced.
        is_leaf: Whether an operation is one of those.
    """
    seen: set[int] = set()
    stack = [tensor]
    while stack:
        current = stack.pop()
        operation = current.op
        if id(current) in seen or _is_given(operation.type) or is_leaf(operation):
            continue
        seen.add(id(current))
        if operation.type == "Placeholder":
            outer = _captured(current)
            if outer is None:
                return False
            stack.extend([outer] if hasattr(outer, "op") else [])  # else it is a value from outside of the step
        inputs = list(operation.inputs)
        stack.extend(inputs[current.value_index : current.value_index + 1] if operation.type == "IdentityN" else inputs)
    return True


def _is_given(op: str) -> bool:
    """Whether an operator reads a variable, or gives something that no input changes."""
    return meaning(op).handle is Handle.READS or (is_kind(op, Kind.SOURCE) and op != "Placeholder")


def _captured(placeholder: Any) -> Any:
    """The outer tensor of a graph's placeholder; None if that is an input."""
    captures = getattr(placeholder.graph, "captures", ())
    return next((outer for outer, inner in captures if inner.name == placeholder.name), None)
