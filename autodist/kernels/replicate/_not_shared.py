"""Steps that replicas can't take as one device does: they are refused, with what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from autodist.errors import CaptureError, FixedRowsError
from autodist.graph import StepAnalysis, TrainingGraph
from autodist.graph.layouts import NoPlanError
from autodist.kernels.replicate._counter_based import elements_of_rows
from autodist.kernels.replicate._demand import NodeDemand
from autodist.kernels.replicate._warnings import inexact_of


def writes_by_replicas(demand: NodeDemand) -> list[str]:
    """The nodes that change variables while they compute a value for each example."""
    return [name for name in demand.analysis.writes if name in demand.replica]


def counted_draws(demand: NodeDemand) -> dict[str, int]:
    """The random operators whose numbers replicas can draw for their own rows, with the count of numbers per row."""
    found = {name: elements_of_rows(demand.analysis, name) for name in demand.draws}
    return {name: each for name, each in found.items() if each is not None}


def refuse_apart(graph: TrainingGraph, demand: NodeDemand, error: NoPlanError) -> None:
    """Refuse a step that replicas can't share tensor by tensor, if its results would differ from those of one device.

    Args:
        graph: The step.
        demand: The nodes that its replicas compute.
        error: Why they can't share it.

    Raises:
        CaptureError: The results would differ.
        FixedRowsError: The step is for one number of rows only, and each replica has fewer.
    """
    if graph.fixed_rows is not None:
        raise FixedRowsError(
            f"the step is for batches of {graph.fixed_rows} rows only, and replicas can't share it: {error}"
            f"{_at(graph, error.node)}",
            hint="write `tf.shape(x)[0]` for the number of rows of the batch, and -1 in its place in `tf.reshape`",
        ) from error
    refuse_writes(demand.analysis, demand, graph)
    counted = counted_draws(demand)
    drawn = (
        f"op `{name}` ({demand.analysis.nodes[name].op}){_at(graph, name)} would draw other numbers for their examples"
        for name in demand.draws
        if name not in counted
    )
    met = next(iter((*inexact_of(graph, demand), *drawn)), None)
    if met is not None:
        raise CaptureError(
            f"replicas can't share this step so that it gives what one device gives: {error}"
            f"{_at(graph, error.node)}. If each computed the step of its own examples, they would differ: {met}",
            hint="compute what is named in the input pipeline (`dataset.map`), or on all examples at once instead of "
            "in a loop; or have the gradients of replicas' own losses averaged, which differs from one device, "
            'by `scope(gradient_reduction="mean")`',
        )


def refuse_writes(analysis: StepAnalysis, demand: NodeDemand, graph: TrainingGraph) -> None:
    """Refuse nodes that compute a value for each example and change a variable at the same time."""
    for name in writes_by_replicas(demand):
        node, handles = analysis.nodes[name], analysis.writes[name].handles
        changed = ", ".join(f"`{v.name}`" for v in graph.variables if v.handle in handles)
        raise CaptureError(
            f"op `{name}` ({node.op}) at {graph.lines.get(name, name)} changes {changed} while it computes something "
            "from the examples, and so would do it once per replica",
            hint="change variables outside of `tf.cond`, `tf.while_loop`, `tf.map_fn` and loops over tensors; random "
            "numbers from a generator can be drawn before, all at once, and be passed in",
        )


def refuse_statistics(graph: TrainingGraph, nodes: Sequence[str], why: str, remedy: str) -> None:
    """Refuse batch normalization by the whole batch where each replica has its part alone."""
    if nodes:
        line = graph.lines.get(nodes[0], nodes[0])
        raise CaptureError(
            f"batch normalization at {line} can't be synchronized in this step: {why}",
            hint=f"{remedy}, or let the layer normalize by replica: `batch_norm='replica'`, `synchronized=False`",
        )


def _at(graph: TrainingGraph, name: str) -> str:
    line = graph.lines.get(name)
    return f" at {line}" if line else ""
