"""Finds the description of an operator: ours, and what other packages bring through entry points."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from autodist.graph._graph_def import data_inputs, num_outputs, output_shape, tensor_shape
from autodist.graph.operators import (
    _by_row,
    _convolutions,
    _elementwise,
    _others,
    _pooling,
    _reductions,
)
from autodist.graph.operators import (
    _moving_operators as _moving,
)
from autodist.graph.operators import (
    _product_operators as _products,
)
from autodist.graph.operators import (
    _row_operators as _lookups,
)
from autodist.graph.operators._base import Expression, Operator, Signature
from autodist.graph.operators._kinds import Flow, Kind, Passes
from autodist.registry import PluginWarning

__all__ = [
    "BRANCHES",
    "CALLS",
    "CONTROL_FLOW",
    "ENTRY_POINT_GROUP",
    "LOOPS",
    "OPERATORS",
    "broadcasts",
    "expression_of",
    "first_argument",
    "is_kind",
    "meaning",
    "operator",
    "operators",
    "passes_on",
    "puts_rows_together",
    "signature_of",
]

ENTRY_POINT_GROUP = "autodist.operators"

OPERATORS: Mapping[str, Operator] = MappingProxyType(
    {
        found.name: found
        for module in (
            _elementwise,
            _reductions,
            _products,
            _convolutions,
            _pooling,
            _moving,
            _lookups,
            _by_row,
            _others,
        )
        for found in module.OPERATORS
    }
)
"""Ours, by op type."""
BRANCHES, LOOPS, CALLS = (
    frozenset(name for name, known in OPERATORS.items() if known.flow is flow)
    for flow in (Flow.BRANCH, Flow.LOOP, Flow.CALL)
)


CONTROL_FLOW = BRANCHES | LOOPS
"""The operators that run their functions under a condition, or again and again."""


@cache
def operators() -> Mapping[str, Operator]:
    """All operators that have a description, by op type: ours and those of other packages.

    An entry point of the group ``autodist.operators`` is called as the op type and names an :class:`Operator`; what
    can't be loaded, or describes an operator of ours, is left out with a warning.
    """
    from importlib.metadata import entry_points  # 30 ms, which `import autodist` need not pay

    found = dict(OPERATORS)
    for entry in sorted(set(entry_points(group=ENTRY_POINT_GROUP)), key=lambda entry: (entry.name, entry.value)):
        problem = None
        try:
            brought = entry.load()
        except Exception as error:  # whatever another package's code raises
            problem = f"can't be loaded: {type(error).__name__}: {error}"
        else:
            if not isinstance(brought, Operator) or brought.name != entry.name:
                problem = f"is {brought!r}, allowed: an Operator whose name is that of its entry point"
            elif entry.name in found:
                problem = "describes what is described already"
        if problem is None:
            found[entry.name] = brought
        else:
            text = f"the operator `{entry.name}` of `{entry.value}` {problem}; it is left out"
            warnings.warn(text, PluginWarning, stacklevel=2)
    return MappingProxyType(found)


def operator(op: str) -> Operator | None:
    """The description of an operator; None if it has none.

    Example:
        >>> operator("MatMul").kind.value
        'product'
    """
    return operators().get(op)


def meaning(op: str) -> Operator:
    """The description of an operator; of one without any, just that.

    Example:
        >>> meaning("Shape").asks, meaning("Undescribed").asks
        (<Asks.LENGTHS: 'lengths'>, None)
    """
    return operators().get(op) or _undescribed(op)


@cache
def _undescribed(op: str) -> Operator:
    return Operator(op, Kind.OTHER)


def is_kind(op: str, *kinds: Kind) -> bool:
    """Whether an operator is known to be of one of these kinds."""
    found = operators().get(op)
    return found is not None and found.kind in kinds


def passes_on(op: str, *ways: Passes) -> bool:
    """Whether an operator's result is its first input still, in one of these ways; without any, in whichever.

    Example:
        >>> passes_on("Reshape", Passes.SAME, Passes.FORM), passes_on("Reshape", Passes.SAME)
        (True, False)
    """
    found = operators().get(op)
    return found is not None and found.passes is not None and (not ways or found.passes in ways)


def first_argument(op: str) -> int:
    """The input that is the first argument of the functions that an operator calls."""
    return 1 if op in BRANCHES else 0


def broadcasts(op: str) -> bool:
    """Whether an operator computes element by element what its inputs are broadcast to."""
    found = operators().get(op)
    return found is not None and found.describe is _elementwise.pointwise


def puts_rows_together(op: str) -> bool:
    """Whether an operator puts together the rows that have one number, which are in no order."""
    found = operators().get(op)
    return found is not None and found.describe is _lookups.segments


def signature_of(node: Any, nodes: Mapping[str, Any], constant: Callable[[str], Any]) -> Signature:
    """A node of a graph, as its description sees it.

    Args:
        node: The node, with shapes from tracing.
        nodes: All nodes by name.
        constant: The value of a tensor that is constant, as a NumPy array; None for any other.
    """
    tensors = data_inputs(node)
    count = num_outputs(node)

    return Signature(
        node.op,
        tuple(tensor_shape(nodes, tensor) for tensor in tensors),
        tuple(output_shape(node, k) for k in range(count)),
        node.attr,
        lambda position: constant(tensors[position]),
    )


def expression_of(signature: Signature) -> Expression | None:
    """The computation of a node, in indices; None if it isn't said for this operator, such shapes or attributes."""
    found = operator(signature.op)
    return None if found is None or found.describe is None else found.describe(signature)
