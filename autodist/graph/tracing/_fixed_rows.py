"""Steps that combine the batch, row by row, with a tensor of a fixed number of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any

from autodist.errors import FixedRowsError
from autodist.graph._graph_def import ancestors, data_inputs, node_of, tensor_shape
from autodist.graph._training_graph import TrainingGraph
from autodist.graph.analysis import BatchScaling, StepAnalysis
from autodist.graph.operators import Passes, broadcasts, passes_on


def refuse_fixed_beside_rows(graph: TrainingGraph, names: Sequence[str], line_of: Callable[[str], str]) -> None:
    """Refuse ops that put rows of the batch and a fixed number of other rows together, one by one.

    One device can do that with batches of just that many rows. A replica has fewer, or, where a wrong number happens to
    fit, would compute what one device refuses.

    Args:
        graph: The step.
        names: What to call its arguments.
        line_of: The user's line of a node.

    Raises:
        FixedRowsError: There is such an op.
    """
    analysis = graph.analysis
    needed = ancestors(analysis.nodes, [*graph.effects, *(node_of(output.tensor) for output in graph.outputs)])
    given = zip(graph.inputs, names, strict=True)
    whole = {node_of(argument.tensor): name for argument, name in given if not argument.split}
    for name in analysis.order:
        if name not in needed or not broadcasts(analysis.nodes[name].op):
            continue
        for tensor, size in _fixed_beside_rows(analysis, analysis.nodes[name]):
            what = whole.get(_origin(analysis, tensor), "something")
            raise FixedRowsError(
                f"the step puts the rows of the batch together with the {size} rows of {what}, which is not part of "
                f"the batch, so that every replica gets all of it: op `{name}` ({analysis.nodes[name].op}) at "
                f"{line_of(name)}",
                hint="what belongs to the batch must be an argument with as many rows as the batch; of what does not, "
                "have the step pick what each example needs, for example by `tf.gather`",
            )


def _fixed_beside_rows(analysis: StepAnalysis, node: Any) -> Iterator[tuple[str, int]]:
    """The inputs of a fixed size where another one has the batch, and these sizes."""
    tensors = data_inputs(node)
    shapes = [tensor_shape(analysis.nodes, tensor) for tensor in tensors]
    if None in shapes:
        return
    rows = {_place_of_rows(analysis, tensor, len(shape or ())) for tensor, shape in zip(tensors, shapes, strict=True)}
    for place, dims in enumerate(zip_longest(*(reversed(shape or ()) for shape in shapes), fillvalue=1)):
        if place in rows:
            yield from (
                (tensor, size) for tensor, size in zip(tensors, dims, strict=True) if size is not None and size > 1
            )


def _place_of_rows(analysis: StepAnalysis, tensor: str, rank: int) -> int | None:
    """Which dim, counted from the last one, a tensor has for the batch; tracing may have left others open."""
    dim = analysis.dependence.dim_of_batch(tensor)
    is_open = analysis.scaling(tensor) in (BatchScaling.ROWS, BatchScaling.SUBSET)
    return None if dim is None or not is_open else rank - 1 - dim


def _origin(analysis: StepAnalysis, tensor: str) -> str:
    """The node whose value a tensor has, perhaps in another form."""
    name = node_of(tensor)
    while passes_on(analysis.nodes[name].op, Passes.SAME, Passes.FORM, Passes.TYPE):
        name = node_of(analysis.nodes[name].input[0])
    return name
