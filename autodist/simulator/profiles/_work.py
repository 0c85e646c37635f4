"""Assigns the operations of a step to the variables that they are done for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from autodist.graph import ancestors, node_of
from autodist.graph.operators import Kind, Passes, is_kind, passes_on

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable


def gradient_nodes(graph: TrainingGraph) -> list[str]:
    """The nodes that carry the gradients of trainable variables."""
    return [node_of(t) for v in graph.trainable for gradient in v.gradients for t in gradient.tensors]


def readers(graph: TrainingGraph) -> dict[str, list[str]]:
    """By trainable variable, the operations of forward and backward pass at which its value meets the batch.

    Operations that depend only on variables, such as a cast, could run at any time; they count if there are no others.
    """
    analysis = graph.analysis
    needed = ancestors(analysis.nodes, gradient_nodes(graph))
    fed = analysis.reached(node_of(step_input.tensor) for step_input in graph.inputs)
    reads: dict[str, list[str]] = {}
    for name, handles in analysis.reads.items():
        for handle in handles if name in needed else ():
            reads.setdefault(handle, []).append(name)

    def following(name: str) -> Iterator[str]:
        return (
            c for c in analysis.consumers.get(name, ()) if c in needed and not is_kind(analysis.nodes[c].op, Kind.SHAPE)
        )

    found = {v.name: list(_met(reads.get(v.handle, []), fed, following)) for v in graph.trainable}
    alone = {v.name: [c for name in reads.get(v.handle, []) for c in following(name)] for v in graph.trainable}
    return {name: met or alone[name] for name, met in found.items()}


def _met(begins: list[str], fed: Mapping[str, int], following: Callable[[str], Iterator[str]]) -> Iterator[str]:
    """The first nodes that depend on fed tensors, on all paths from some nodes."""
    stack, passed = list(begins), set()
    while stack:
        name = stack.pop()
        if name in passed:
            continue
        passed.add(name)
        if name in fed:
            yield name
        else:
            stack.extend(following(name))


def variable_seconds(
    graph: TrainingGraph, seconds: Mapping[str, float], run_as: Callable[[str], str | None] = lambda name: name
) -> dict[str, float]:
    """By trainable variable, the seconds of the operations that read its value or make its dense gradient.

    An operation of several variables is divided by their sizes: a product and a bias addition may be one operation.

    Args:
        graph: G, with its GraphDef.
        seconds: By node, its seconds.
        run_as: Gives the node under whose name `seconds` has a node.
    """
    served: dict[str, dict[str, Variable]] = {}
    met = readers(graph)
    for variable in graph.trainable:
        for name in (*met[variable.name], *_makers(graph, variable)):
            place = run_as(name)
            if place is not None:
                served.setdefault(place, {})[variable.name] = variable
    found = dict.fromkeys((v.name for v in graph.trainable), 0.0)
    for node, variables in served.items():
        whole = sum(v.size_bytes for v in variables.values()) or 1
        for name, variable in variables.items():
            found[name] += seconds.get(node, 0.0) * variable.size_bytes / whole
    return found


def _makers(graph: TrainingGraph, variable: Variable) -> Iterator[str]:
    """The last operations before dense gradients that compute them; the rows of a sparse one are another's work."""
    analysis = graph.analysis
    stack = [node_of(gradient.dense) for gradient in variable.gradients if gradient.dense is not None]
    passed = set()
    while stack:
        name = stack.pop()
        if name in passed:
            continue
        passed.add(name)
        op = analysis.nodes[name].op
        if not passes_on(op, Passes.SAME, Passes.FORM):
            yield name
        if passes_on(op) or op == "AddN":
            stack.extend(analysis.sources[name][:1] if op == "Reshape" else analysis.sources[name])
