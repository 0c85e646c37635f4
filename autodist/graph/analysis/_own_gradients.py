"""Gradients that a program computes by functions of its own (``tf.custom_gradient``), where they are not linear.

What comes from above has another scale on each replica, whose loss is a mean of its own examples, and belongs to its
own examples alone. All gradients of TensorFlow itself are linear in it, example by example, so that weighting the
results mends that. One that clips what comes, divides by its norm or takes its mean over the batch is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autodist.graph._constants import is_zero
from autodist.graph._function_bodies import FunctionBodies
from autodist.graph._graph_def import (
    called_functions,
    data_inputs,
    node_of,
    tensor_dtype,
    topological_order,
)
from autodist.graph.annotations import OWN_BACKWARD
from autodist.graph.operators import (
    CONTROL_FLOW,
    LOOPS,
    Kind,
    Linearity,
    first_argument,
    is_kind,
    meaning,
    passes_on,
)

_MOST_TURNS = 5


def bent_gradients(
    nodes: dict[str, Any], backward: Iterable[str], is_by_row: Callable[[str], bool], bodies: FunctionBodies
) -> tuple[str, ...]:
    """The nodes of a program's own gradients that are not linear in what comes from above, or mix its examples.

    Args:
        nodes: The flat step, by name.
        backward: Its nodes that depend on what comes from above, in order.
        is_by_row: Whether a tensor has a row for each example.
        bodies: The functions of the step.
    """
    names = dict.fromkeys(backward)
    found = _NonlinearNodes(nodes, names, bodies, is_by_row)
    return tuple(name for name in names if found.is_bent(nodes[name]))


class _NonlinearNodes:
    """Checks the nodes of a graph, or of a function, that depend on the gradient from above."""

    def __init__(
        self,
        nodes: dict[str, Any],
        backward: Iterable[str],
        bodies: FunctionBodies,
        is_by_row: Callable[[str], bool] = lambda tensor: True,
    ) -> None:
        self._nodes = nodes
        self._backward = frozenset(backward)
        self._bodies = bodies
        self._is_by_row = is_by_row

    def is_bent(self, node: Any) -> bool:
        """Whether a node of a program's own gradient is not linear; for control flow, whether one inside is not."""
        if node.op in CONTROL_FLOW:
            return any(self._is_bent_inside(node, called.name) for called in called_functions(node))
        if OWN_BACKWARD not in node.attr or is_kind(node.op, Kind.SHAPE) or meaning(node.op).ignores_values:
            return False
        tensors = data_inputs(node)
        given = [k for k, tensor in enumerate(tensors) if self._is_from_above(tensor)]
        return bool(given) and not self._is_linear(node, tensors, given)

    def _is_linear(self, node: Any, tensors: list[str], given: list[int]) -> bool:
        linearity = meaning(node.op).linearity
        if meaning(node.op).chooses:
            return 0 not in given and self._adds_nothing(tensors[1:])
        if linearity is Linearity.JOINT:
            return self._adds_nothing(tensors)
        if linearity is Linearity.EACH:
            return len(given) == 1
        if linearity in (Linearity.FIRST, Linearity.NUMERATOR):
            return given == [0]
        if is_kind(node.op, Kind.MOVING) or passes_on(node.op):
            return True
        return str(node.op).endswith("Grad")  # TensorFlow's own gradients of functions that it has no other name for

    def _adds_nothing(self, tensors: Sequence[str]) -> bool:
        """Whether all that is added, or chosen from, comes from above, from the same examples, except zeros."""
        floats = [tensor for tensor in tensors if self._is_float(tensor)]
        given = [tensor for tensor in floats if self._is_from_above(tensor)]
        others = (tensor for tensor in floats if not self._is_from_above(tensor))
        return len(set(map(self._is_by_row, given))) == 1 and all(is_zero(self._nodes, tensor) for tensor in others)

    def _is_from_above(self, tensor: str) -> bool:
        return node_of(tensor) in self._backward and self._is_float(tensor)

    def _is_float(self, tensor: str) -> bool:
        return tensor_dtype(self._nodes, tensor).startswith(("float", "bfloat", "complex"))

    def _is_bent_inside(self, node: Any, function: str) -> bool:
        nodes, arguments = self._bodies.nodes(function), self._bodies.arguments(function)
        if not any(OWN_BACKWARD in inner.attr for inner in nodes.values()):
            return False
        given = data_inputs(node)[first_argument(node.op) :]
        reached = {name for name, tensor in zip(arguments, given, strict=False) if node_of(tensor) in self._backward}
        order = topological_order(nodes)
        for _ in range(_MOST_TURNS if node.op in LOOPS else 1):
            before = len(reached)
            for name in order:
                if not reached.isdisjoint(map(node_of, data_inputs(nodes[name]))):
                    reached.add(name)
            if node.op in LOOPS:  # the results of one iteration are the arguments of the next
                results = zip(arguments, self._bodies.results(function), strict=False)
                reached.update(name for name, result in results if node_of(result) in reached)
            if len(reached) == before:
                break
        inside = _NonlinearNodes(nodes, reached, self._bodies)
        return any(inside.is_bent(nodes[name]) for name in order if name in reached)
