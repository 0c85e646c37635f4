"""Warnings about a step that replicas can't compute as one device does."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from math import prod

from autodist.graph import (
    ROWLIKE,
    BatchScaling,
    StepAnalysis,
    TrainingGraph,
    data_inputs,
    gradients_of_statistics,
    itemsize,
    node_of,
    reduction_of_met,
    tensor_dtype,
    tensor_shape,
)
from autodist.graph.batch import BY_REPLICA
from autodist.graph.operators import Kind, is_kind
from autodist.kernels.replicate._demand import NodeDemand

_NEITHER = "is neither a sum nor a mean over the batch"
_MANY_BYTES = 4 * 2**20
_MOST_LAYERS = 4


def warnings_of(
    graph: TrainingGraph, demand: NodeDemand | None = None, gradient_reduction: str = "auto"
) -> tuple[str, ...]:
    """Warnings about losses, values and what is gathered for them, one for each kind of op on each line of the program.

    Args:
        graph: The step.
        demand: The nodes that its replicas compute, if they are known already.
        gradient_reduction: How the caller has gradients combined.
    """
    demand = NodeDemand(graph.analysis, graph) if demand is None else demand
    return (*inexact_of(graph, demand, gradient_reduction), *_of_gathering(graph, demand))


def inexact_of(graph: TrainingGraph, demand: NodeDemand, gradient_reduction: str = "auto") -> tuple[str, ...]:
    """Differences from one device if each replica computes the loss of its own examples; see :func:`warnings_of`."""
    losses = (*_of_losses(graph, demand, gradient_reduction), *_of_sources(graph, demand), *_of_bent(graph, demand))
    return (*losses, *_of_vectorized(graph, demand), *_of_begins(graph, demand), *_of_values(graph, demand))


def notes_of(demand: NodeDemand, counted: Container[str] = (), variables: Iterable[str] = ()) -> tuple[str, ...]:
    """The documented differences from one device, if each replica computes the loss of its own examples.

    Args:
        demand: The nodes that the step's replicas compute.
        counted: The nodes that draw for a replica's examples what one device draws for them.
        variables: Names of the step's variables, which have those of layers in them.
    """
    nodes = demand.analysis.nodes
    notes = []
    by_replica = [name for name in demand.replica if BY_REPLICA in nodes[name].attr]
    if by_replica:
        notes.append(
            f"batch normalization ({_layers(by_replica, variables)}) normalizes each replica's part of the batch by "
            "that part's own mean and variance, so weights differ from those of one device, the less the larger the "
            'parts are; `scope(batch_norm="synchronized")` normalizes by the whole batch'
        )
    if any(name not in counted for name in demand.draws):
        notes.append(
            "in this step each replica draws its own random numbers for its examples (Dropout, noise), so weights "
            "differ from those of one device"
        )
    return tuple(notes)


def notes_of_halves(graph: TrainingGraph) -> tuple[str, ...]:
    """Differences of sums in float16: its largest number is 65504, and the sum of a part may be below that."""
    analysis = graph.analysis
    nodes, scalings = analysis.nodes, analysis.scalings
    sums = (
        name
        for name, found in scalings.items()
        if found[0] in (BatchScaling.SUM, BatchScaling.MEAN)
        and is_kind(nodes[name].op, Kind.REDUCTION)
        and not analysis.dependence.is_backward(name)
        and tensor_dtype(nodes, name) == "float16"
        and any(analysis.scaling(tensor) in ROWLIKE for tensor in data_inputs(nodes[name]))
    )
    summed = next(sums, None)
    gradient = next((name for name in analysis.marks if _is_half_gradient(analysis, name)), None)
    notes = []
    if summed is not None:
        notes.append(
            f"`{summed}` ({nodes[summed].op}) adds up float16 of all examples, and each replica those of its own: "
            "beyond 65504 the sum of one device is infinite, and theirs may not be; compute losses in float32 by "
            "`tf.cast`"
        )
    if gradient is not None:
        notes.append(
            "gradients in float16 are rounded for each replica's part of the batch: a part beyond 65504 is infinite, "
            "and the gradient of one device may not be, so a `LossScaleOptimizer` may leave out other steps; "
            "bfloat16 has no such limit"
        )
    return tuple(notes)


def _is_half_gradient(analysis: StepAnalysis, mark: str) -> bool:
    """Whether a gradient is computed in float16 from a batch, perhaps cast afterwards, and is not an example's row."""
    tensor = analysis.nodes[mark].input[0]
    source = analysis.nodes[node_of(tensor)]
    kind = tensor_dtype(analysis.nodes, source.input[0] if source.op == "Cast" else tensor)
    return analysis.marks[mark].part == "dense" and source.name in analysis.scalings and kind == "float16"


def _layers(names: Iterable[str], variables: Iterable[str]) -> str:
    """Return the layers that nodes belong to, by the names that variables have: scopes of nodes may have a number."""
    known = {part for variable in variables for part in variable.split("/")[:-1]}
    scopes = dict.fromkeys(_scope(name) for name in sorted(names))
    bare = {scope: re.sub(r"_\d+$", "", scope) for scope in scopes}
    if not scopes.keys() <= known and known.issuperset(bare.values()) and len(set(bare.values())) == len(scopes):
        found = list(bare.values())  # all scopes were opened a second time: `norm_1` is then the layer `norm`
    else:
        found = [s if s in known or bare[s] not in known else bare[s] for s in scopes]
    shown = [f"`{layer}`" for layer in dict.fromkeys(found) if layer]
    more = f" and {len(shown) - _MOST_LAYERS} more" if len(shown) > _MOST_LAYERS else ""
    return ", ".join(shown[:_MOST_LAYERS]) + more


def _scope(name: str) -> str:
    """Return the innermost scope in which a layer has made a node of its statistics."""
    return (name.partition("/moments/")[0] if "/moments/" in name else name.rpartition("/")[0]).rpartition("/")[2]


def _of_losses(graph: TrainingGraph, demand: NodeDemand, gradient_reduction: str) -> Iterator[str]:
    analysis = demand.analysis
    meetings = analysis.dependence.meetings(demand.losses)
    for place, name in _by_line(graph, demand, meetings):
        yield (
            f"the loss: {place} {analysis.dependence.causes[name]}, and each replica has only a part of the batch: "
            "gradients, and so weights, will differ from those of a single device. What needs no weights can be "
            "computed in the input pipeline (`dataset.map`) instead"
        )
    unclear = {t for name, targets in demand.taken.items() if analysis.reduction(name) is None for t in targets}
    if gradient_reduction == "auto" and unclear and not meetings:
        for place, _ in _by_line(graph, demand, map(node_of, sorted(unclear))):
            yield (
                f"the loss, {place}, is neither a sum nor a mean over the batch: the replicas' gradients are averaged, "
                "which differs from a single device; `scope(gradient_reduction=...)` says how to combine them"
            )


def _of_sources(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    """Gradients with respect to values without a row per example, which each replica computes from its own examples."""
    analysis = demand.analysis
    sources = {
        name: analysis.nodes[name].input[1]
        for name, by in analysis.by_tensors.items()
        if by.is_returned and name in demand.replica
    }
    unlike = {node_of(source) for source in sources.values() if analysis.scaling(source) not in ROWLIKE}
    for place, _ in _by_line(graph, demand, sorted(unlike)):
        yield (
            f"a gradient is taken with respect to the output of {place}, which each replica computes of its own part "
            "of the batch: gradients, and so weights, will differ from those of a single device. Take it with respect "
            "to a tensor with a row for each example, or to one that is the same for all"
        )


def _of_bent(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    """The program's own gradients that are not linear in the gradient that a replica's loss gives them."""
    for place, _ in _by_line(graph, demand, (name for name in demand.analysis.bent if name in demand.replica)):
        yield (
            f"a gradient that the program defines itself, {place}, is not linear in what comes from the loss, or takes "
            "examples together, and each replica has the loss of its own part of the batch: gradients, and so weights, "
            "will differ from those of a single device"
        )


def _of_vectorized(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    """Gradients of many tensors at once, where these are means or other values of all examples, not of one each."""
    names = (name for name in gradients_of_statistics(demand.analysis) if name in demand.replica)
    for place, _ in _by_line(graph, demand, names):
        yield (
            f"a Jacobian, or gradients in `tf.vectorized_map`, {place}, are taken of values of all examples, and each "
            "replica has those of its part of the batch: gradients, and so weights, will differ from those of a single "
            "device"
        )


def _of_begins(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    """Gradients with initial ones from the program, which each replica computes from its part of the batch."""
    for place, _ in _by_line(graph, demand, (name for name in demand.analysis.begins_apart if name in demand.replica)):
        yield (
            f"`output_gradients`, {place}, takes several examples together, and each replica has only a part of the "
            "batch: gradients, and so weights, will differ from those of a single device"
        )


def _of_values(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    for place, name in _by_line(graph, demand, sorted(demand.inexact)):
        is_of_met = reduction_of_met(demand.analysis.dependence, name) is not None
        what = "takes several examples together, and each replica has only its own" if is_of_met else _NEITHER
        yield f"{place} {what}; its value will be {demand.inexact[name]}"


def _gathered(graph: TrainingGraph, demand: NodeDemand) -> list[str]:
    """The tensors whose rows are gathered for values of the whole batch, alongside what the step returns."""
    returned = {output.tensor for output in graph.outputs} | demand.analysis.marks.keys()
    rows = (tensor for tensor, scaling in demand.cuts.items() if scaling in (BatchScaling.ROWS, BatchScaling.SUBSET))
    return sorted(tensor for tensor in rows if tensor not in returned)


def _of_gathering(graph: TrainingGraph, demand: NodeDemand) -> Iterator[str]:
    nodes = demand.analysis.nodes
    for tensor in _gathered(graph, demand):
        each = prod(size for size in tensor_shape(nodes, tensor) or () if size is not None)
        size = (graph.batch_size or 0) * each * itemsize(tensor_dtype(nodes, tensor))
        if size > _MANY_BYTES:
            yield (
                f"{_place(graph, demand, node_of(tensor))} is gathered from all replicas in each step, "
                f"{size / 2**20:.0f} MB, because a value of the whole batch is computed from it"
            )


def _by_line(graph: TrainingGraph, demand: NodeDemand, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Words for each node, and its name; several nodes of one kind on one line count once."""
    seen: set[tuple[str, str]] = set()
    for name in names:
        key = demand.analysis.nodes[name].op, graph.lines.get(name, name)
        if key not in seen:
            seen.add(key)
            yield _place(graph, demand, name), name


def _place(graph: TrainingGraph, demand: NodeDemand, name: str) -> str:
    line = graph.lines.get(name)
    at = f" at {line}" if line is not None and line != name else ""
    return f"op `{name}` ({demand.analysis.nodes[name].op}){at}"
