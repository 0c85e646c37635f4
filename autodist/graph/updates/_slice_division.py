"""Keras' division of a sparse gradient by a dense tensor, found by its shape.

Where the divisor has a zero or NaN, the quotient has to have those rows too. So Keras checks the whole divisor, and
divides in one of two branches: only the gradient's rows, or also the rows with zeros and NaN. Each shard of a variable
can do the same by itself: its rows of zeros and NaN are its own, and a shard without them has only its gradient's rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from autodist.graph._graph_def import constant_value, data_inputs, node_of
from autodist.graph.updates._update_rules import Argument, Domain, Domains, domains_of

_DENSE, _FLAGS, _INDICES, _SHAPE, _VALUES = (
    Domain.DENSE, Domain.ROW_FLAGS, Domain.INDICES, Domain.SHAPE, Domain.VALUES,
)  # fmt: skip
_SHAPING = frozenset(
    ["Cast", "Const", "ExpandDims", "Fill", "GatherV2", "Identity", "Pack", "Shape", "Squeeze", "StridedSlice"]
)
_UNION = {"Equal": 1, "LogicalOr": 1, "RealDiv": 1, "ScatterNd": 2, "StatelessIf": 1, "Where": 2}
"""Operators of the branch that adds rows, besides those that give tensors a shape."""


def slice_division(
    node: Any, arguments: Sequence[Argument], nodes: Mapping[str, Any], functions: Mapping[str, Any]
) -> Domains | None:
    """The domains of the outputs of such a division; None for another node.

    Args:
        node: One that changes no variable.
        arguments: Its inputs.
        nodes: The graph, by name.
        functions: Its functions, by name.
    """
    if node.op != "StatelessIf" or [a.domain for a in arguments[:1]] != [Domain.FLAG]:
        return None
    divisor = _divisor(node, arguments, nodes)
    if divisor is None or not _adds_rows(functions[node.attr["then_branch"].func.name]):
        return None
    found = _domains_of_branch(functions[node.attr["else_branch"].func.name], arguments[1:])
    return (_VALUES, _INDICES, _SHAPE) if found == [_VALUES, _INDICES, _SHAPE] else None


def _divisor(node: Any, arguments: Sequence[Argument], nodes: Mapping[str, Any]) -> str | None:
    """The one dense input, if the branch is chosen by whether it has a zero or NaN."""
    inputs = data_inputs(node)
    dense = [tensor for tensor, argument in zip(inputs, arguments, strict=True) if argument.domain is _DENSE]
    others = {a.domain for a in arguments[1:]} - {_DENSE, _FLAGS, _INDICES, _SHAPE, _VALUES}
    either = _through(nodes, inputs[0], "Any", "Any", "LogicalOr")
    if len(dense) != 1 or others or either is None:
        return None
    zero, nan = (nodes[node_of(tensor)] for tensor in data_inputs(either))
    of_it = zero.op == "Equal" and nan.op == "IsNan" and zero.input[0] == nan.input[0] == dense[0]
    return dense[0] if of_it and _is_zero(nodes[node_of(zero.input[1])]) else None


def _through(nodes: Mapping[str, Any], tensor: str, *ops: str) -> Any:
    """The last node of a chain of first inputs that has these ops."""
    node = None
    for op in ops:
        node = nodes[node_of(tensor)]
        if node.op != op:
            return None
        tensor = node.input[0]
    return node


def _is_zero(node: Any) -> bool:
    value = constant_value(node)
    return value is not None and value.shape == () and not value


def _adds_rows(function: Any) -> bool:
    counts = Counter(node.op for node in function.node_def)
    return {op: count for op, count in counts.items() if op not in _SHAPING} == _UNION


def _domains_of_branch(function: Any, arguments: Sequence[Argument]) -> list[Domain | None]:
    """The domains of a function's outputs, if all that it does is elementwise."""
    known = {arg.name: a for arg, a in zip(function.signature.input_arg, arguments, strict=True)}
    for node in function.node_def:
        inputs = [known[tensor.partition(":")[0]] for tensor in data_inputs(node)]
        domains = domains_of(node, inputs, ()) if any(a.domain is not None for a in inputs) else None
        known[node.name] = Argument(domains[0] if domains else None, None, node)
    return [known[function.ret[output.name].partition(":")[0]].domain for output in function.signature.output_arg]
