"""How the gradients of several replicas make that of the whole batch: it follows from what was differentiated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from autodist.graph._graph_def import data_inputs, node_of
from autodist.graph.analysis._batch_scaling import ROWLIKE, BatchScaling, adds_up_rows
from autodist.graph.analysis._dependence import BatchDependence
from autodist.graph.operators import Kind, Linearity, Passes, is_kind, meaning, passes_on

Reduction: TypeAlias = Literal["mean", "sum"]

_INVARIANT = frozenset({BatchScaling.CONSTANT, BatchScaling.SAME})
_BY_SCALING: dict[BatchScaling, Reduction] = {
    BatchScaling.MEAN: "mean",
    BatchScaling.SUM: "sum",
    BatchScaling.COUNT: "sum",
    BatchScaling.ROWS: "sum",  # gradients of a tensor are those of the sum of its elements
    BatchScaling.SUBSET: "sum",
    BatchScaling.MET: "sum",
}


def reduction_of(dependence: BatchDependence, tensor: str) -> Reduction | None:
    """Whether replicas average or add their gradients of a tensor; None where neither is right.

    Terms that do not depend on the batch, such as regularizers, leave the choice to the others.
    """
    found = reductions_of(dependence, tensor)
    if None in found or len(found) > 1:
        return None
    return found.pop() if found else "mean"


def reductions_of(dependence: BatchDependence, tensor: str) -> set[Reduction | None]:
    """How the gradients of a tensor's terms combine; see :func:`reduction_of`."""
    terms = [(term, scaling) for term, scaling in _terms(dependence, tensor) if scaling not in _INVARIANT]
    return {_BY_SCALING.get(scaling) or reduction_of_met(dependence, term) for term, scaling in terms}


def reduction_of_met(dependence: BatchDependence, tensor: str) -> Reduction | None:
    """Whether a tensor is the sum or the mean of rows in which examples have met; None if neither.

    Replicas treat it, with a warning, as if the examples had not met.
    """
    node = dependence.nodes[node_of(tensor)]
    kind: Reduction | None = "mean" if node.op == "Mean" else "sum" if adds_up_rows(node.op) else None
    return kind if kind is not None and dependence.scaling(node.input[0]) is BatchScaling.MET else None


def terms_of(dependence: BatchDependence, tensor: str, wanted: BatchScaling) -> list[str]:
    """The terms of a loss that have a scaling: what is added up in it, without factors that are equal everywhere."""
    return [term for term, scaling in _terms(dependence, tensor) if scaling is wanted]


def _terms(dependence: BatchDependence, tensor: str) -> Iterator[tuple[str, BatchScaling]]:
    scaling, node = dependence.scaling(tensor), dependence.nodes[node_of(tensor)]
    inputs = data_inputs(node)
    varying = [t for t in inputs if dependence.scaling(t) is not BatchScaling.CONSTANT and not dependence.is_global(t)]
    is_scaled = _scales(node.op) and (varying == inputs[:1] or (node.op == "Mul" and len(varying) == 1))
    is_sum = meaning(node.op).linearity is Linearity.JOINT or (
        _adds_up(node.op) and not ROWLIKE.intersection(map(dependence.scaling, inputs))
    )
    if scaling not in _INVARIANT and (is_sum or is_scaled):
        for term in varying:
            yield from _terms(dependence, term)
    else:
        yield tensor, scaling


def _scales(op: str) -> bool:
    """Whether an operator's result is its first input times something, element by element."""
    return passes_on(op, Passes.FORM) or (is_kind(op, Kind.ELEMENTWISE) and meaning(op).linearity is not None)


def _adds_up(op: str) -> bool:
    """Whether an operator's result is a sum, or a mean, of elements of its input."""
    return is_kind(op, Kind.REDUCTION) and meaning(op).linearity is Linearity.FIRST
