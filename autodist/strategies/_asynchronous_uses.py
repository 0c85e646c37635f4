"""A step's uses of its own updates of variables, which are impossible if updates run alongside the step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autodist.graph import StepAnalysis, TrainingGraph


def asynchronous_uses(graph: TrainingGraph) -> dict[str, list[str]]:
    """By variable, the reasons why the step needs the update of the variable within the step itself."""
    from autodist.graph import StepAnalysis, node_of

    handles = [variable.handle for variable in graph.variables]
    analysis = StepAnalysis(graph.graph_def, handles, [node_of(i.tensor) for i in graph.inputs if i.split])
    bit = {variable.name: 1 << k for k, variable in enumerate(graph.trainable)}
    marks = {t: bit[v.name] for v in graph.trainable for gradient in v.gradients for t in gradient.tensors}
    behind = analysis.gradient_bits(marks)
    returned = _any(behind.get(node_of(output.tensor), 0) for output in graph.outputs)
    inner = _any(behind.get(source, 0) for mark in marks for source in analysis.sources[mark])
    again = _gradients_after_updates(analysis, graph, marks)
    reasons = (
        (returned, "the step returns a value that depends on its gradient"),
        (inner, "the step goes on with its gradient to a further one"),
        (again, "the step updates it and then takes another gradient of it"),
    )
    found: dict[str, list[str]] = {}
    for name, own in bit.items():
        uses = [reason for bits, reason in reasons if bits & own]
        if uses:
            found[name] = uses
    return found


def _gradients_after_updates(analysis: StepAnalysis, graph: TrainingGraph, marks: dict[str, int]) -> int:
    """The variables with a gradient that comes after one of their updates, as bits."""
    from autodist.graph import node_of

    of_handle = {v.handle: marks[v.gradients[0].tensors[0]] for v in graph.trainable}
    updated: dict[str, int] = {}
    found = 0
    for name in analysis.order:
        before = _any(updated.get(node_of(tensor), 0) for tensor in analysis.nodes[name].input)
        found |= before & marks.get(name, 0)
        if name in analysis.writes:
            before |= _any(of_handle.get(handle, 0) for handle in analysis.writes[name].handles)
        if before:
            updated[name] = before
    return found


def _any(bits: Iterable[int]) -> int:
    union = 0
    for own in bits:
        union |= own
    return union
