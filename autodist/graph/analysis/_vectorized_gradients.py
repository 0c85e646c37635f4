"""Gradients of many tensors at once, by ``tape.jacobian`` and ``tf.vectorized_map``: which of them replicas can't take.

A replica takes the gradients of values of one example each (their losses, their outputs) for its own examples. Values
of all examples (a vector of means over the batch, the gradient of the loss) it has only for its part of the batch: if
they are sums, results without rows add up; all others would have to be weighted, in the middle of the loop.
"""

from __future__ import annotations

from autodist.graph._graph_def import data_inputs
from autodist.graph.analysis._batch_scaling import ROWLIKE, BatchScaling
from autodist.graph.analysis._step_analysis import StepAnalysis
from autodist.graph.batch import RETURNED
from autodist.graph.operators import Kind, is_kind

_STATISTICS = frozenset({BatchScaling.SUM, BatchScaling.MEAN, BatchScaling.MIXED})


def gradients_of_statistics(analysis: StepAnalysis) -> tuple[str, ...]:
    """The gradients of a vectorized loop that depend on the batch, and do not add up to those of the whole batch."""
    names = (name for name in analysis.order if RETURNED in analysis.nodes[name].attr and name in analysis.scalings)
    return tuple(name for name in names if _is_of_statistics(analysis, name))


def _is_of_statistics(analysis: StepAnalysis, name: str) -> bool:
    target = int(analysis.nodes[name].attr[RETURNED].s)
    reduction = analysis.reduction_of_target(target)
    if reduction is None and analysis.scaling(name) in ROWLIKE:
        made_by = analysis.dependence.computed_by_replicas(analysis.targets.get(target, ()))
        return any(_takes_rows_together(analysis, source) for source in made_by)
    return reduction != "sum"


def _takes_rows_together(analysis: StepAnalysis, name: str) -> bool:
    """Whether a node makes one value of several rows; one turn of a loop picks the rows of an example."""
    node = analysis.nodes[name]
    if is_kind(node.op, Kind.MOVING, Kind.SHAPE) or _STATISTICS.isdisjoint(analysis.scalings[name]):
        return False
    return any(analysis.scaling(tensor) in ROWLIKE for tensor in data_inputs(node))
