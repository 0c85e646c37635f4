"""Capture: trace a training step, flatten it, and describe it as a :class:`TrainingGraph`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from autodist.errors import AutoDistError, CaptureError, FixedRowsError
from autodist.garbage import garbage_waits
from autodist.graph._graph_def import node_of, reachable_functions
from autodist.graph._identity import Identity
from autodist.graph._inline import inline_calls
from autodist.graph._training_graph import TrainingGraph
from autodist.graph._variables import StepInput
from autodist.graph.analysis import (
    BareVariable,
    StepAnalysis,
    assign_roles,
    look_up_before_casting,
    sum_up_means,
)
from autodist.graph.annotations import mark_gradients, mark_own_gradients, mark_vectorized, marks_gradients
from autodist.graph.tracing._apart import known_to_keep_apart
from autodist.graph.tracing._batch_norm import mark_fused_batch_norms, synchronize_batch_norm
from autodist.graph.tracing._captured_step import CapturedStep, VariableNames
from autodist.graph.tracing._completed import complete
from autodist.graph.tracing._effects import drop_output_controls, effects, lines_of_interest
from autodist.graph.tracing._fixed_rank import settle_squeezed_dims, squeezing_known_dims
from autodist.graph.tracing._frozen import embed_constants, freeze, large_arrays_as_tensors
from autodist.graph.tracing._hoist import hoist_reads
from autodist.graph.tracing._lengths import Lengths, Shapes
from autodist.graph.tracing._outputs import outputs_of
from autodist.graph.tracing._refusals import (
    JoinInsideError,
    foreign_resource,
    refuse_joins_in_control_flow,
    refuse_second_derivatives,
)
from autodist.graph.tracing._row_counts import RowCounts, answers_matter, noticing_row_counts, refuse_fixed_rows
from autodist.graph.tracing._shapes_for_lengths import Stored, with_shapes
from autodist.graph.tracing._source_lines import SOURCE_GRAPH, SourceLines
from autodist.graph.tracing._summaries import Summaries, returning_summaries
from autodist.graph.tracing._tables import Table, embed_tables, lookups_with_shapes, read_table, refuse_changes
from autodist.graph.tracing._unrolled_ranges import draws_by_order, unrolling_ranges

__all__ = ["SOURCE_GRAPH", "NoGradientError", "capture"]


class NoGradientError(CaptureError):
    """The function differentiates nothing with respect to a variable: it is no training step."""


def capture(
    step: Callable[..., Any],
    specs: Sequence[Any],
    names: VariableNames,
    *,
    split: Sequence[bool] | None = None,
    synchronized_batch_norm: bool = False,
    rows: int | None = None,
    fixed: bool = False,
    lengths: Lengths | None = None,
) -> CapturedStep:
    """Trace `step` and describe what it does.

    Args:
        step: Takes one tensor per spec, positionally.
        specs: ``tf.TensorSpec`` of each argument.
        names: Where variables get their names.
        split: Per argument, whether its dim 0 is the batch, which is traced as unknown; by default where it has one.
        synchronized_batch_norm: Whether all of Keras' batch normalization normalizes by the batch of all replicas, not
            only the layers with ``synchronized=True``.
        rows: How many rows the batch has; None if tracing for one device would not know it either.
        fixed: Whether to trace it for just the number of rows that the specs have, not for any.
        lengths: The sizes of dims that the specs leave open besides the rows, to describe it for such lengths.

    Raises:
        NoGradientError: It differentiates nothing, and can't be captured either.
        CaptureError: It returns something else than tensors, takes a gradient inside control flow, changes a lookup
            table, can be traced for one number of rows only, or uses a resource that can't move to another graph.

    Example:
        >>> import tensorflow as tf
        >>> w = tf.Variable([1.0, 2.0], name="w")
        >>> def step(x):
        ...     with tf.GradientTape() as tape:
        ...         loss = tf.reduce_mean(x * w)
        ...     w.assign_sub(tape.gradient(loss, w))
        ...     return loss
        >>> captured = capture(step, [tf.TensorSpec([8, 2])], VariableNames())
        >>> [(v.name, v.role.value) for v in captured.graph.variables]
        [('w', 'trainable')]
    """
    started = time.perf_counter()
    split = [bool(spec.shape.rank) for spec in specs] if split is None else split
    traced = partial(_trace, step, specs, names, split, synchronized_batch_norm, rows, fixed=fixed)

    def described(found: _Traced) -> CapturedStep:
        describe = partial(_described, found, names, split, synchronized_batch_norm)
        return describe(None) if lengths is None else lengths.described(describe, split)

    first = traced()
    trace_s = time.perf_counter() - started
    captured, asked = _captured(first, traced, described, is_open=rows is not None and not fixed)

    def answered() -> tuple[Identity, RowCounts]:
        relaxed = _with_rows(specs, split, None)
        found = _traced(step, relaxed, names, synchronized_batch_norm, RowCounts(rows, answers=True))
        return described(found).graph.identity, found.asked

    matters = rows is not None and asked.lines and answers_matter(captured.graph.identity, asked, answered)
    return replace(captured, trace_s=trace_s, asking=tuple(asked.lines) if matters else ())


@dataclass(frozen=True)
class _Traced:
    """A step as traced.

    Attributes:
        concrete: TensorFlow's function.
        marked: The variables that its marks are about.
        asked: What its Python code has asked for.
        summaries: What it returns to be written.
    """

    concrete: Any
    marked: list[Any]
    asked: RowCounts
    summaries: Summaries


def _captured(
    first: _Traced,
    traced: Callable[[], _Traced],
    described: Callable[[_Traced], CapturedStep],
    *,
    is_open: bool,
) -> tuple[CapturedStep, RowCounts]:
    """The description of a first trace, or of one without loops where replicas would have to join something in them."""
    try:
        return described(first), first.asked
    except JoinInsideError as error:
        found = _without_loops(traced, error, is_open=is_open)
        return described(found), found.asked
    except CaptureError as error:
        if first.marked:
            raise
        raise NoGradientError(error.message, hint=error.hint) from error


@garbage_waits()
def _described(
    found: _Traced,
    names: VariableNames,
    split: Sequence[bool],
    synchronized_batch_norm: bool,
    shapes: Shapes | None,
) -> CapturedStep:
    """Describe a traced step, for arguments of certain shapes or of any; what is split is as for :func:`capture`."""
    tracing = found.concrete.graph
    num_arguments = len(tracing.inputs) - len(tracing.captures)
    lines = SourceLines(tracing)
    graph_def = tracing.as_graph_def(add_shapes=True)
    mark_vectorized(graph_def)
    mark_fused_batch_norms(graph_def, everywhere=synchronized_batch_norm)
    refuse_changes(graph_def, lines.of)
    tables = _tables(tracing, graph_def, lines)
    bare, handles = _variables(tracing, names, tables)
    flat, aliases = inline_calls(graph_def)
    for variable, handle in freeze(flat, tracing, names):
        bare.append(variable)
        handles[variable.name] = handle
    _simplify(flat, tracing, bare)
    filling = embed_tables(flat, tables)
    inputs = tuple(_step_input(*given) for given in zip(tracing.inputs[:num_arguments], split, strict=True))
    if shapes is not None:
        inputs = tuple(replace(given, shape=shape) for given, shape in zip(inputs, shapes, strict=True))
        stored = {v.handle: Stored(v.shape, v.dtype) for v in bare}
        flat = with_shapes(flat, {**stored, **{node_of(given.tensor): given.shape for given in inputs}})
    batch = [node_of(argument.tensor) for argument in inputs if argument.split]
    analysis = StepAnalysis(flat, [v.handle for v in bare], batch)
    if sum_up_means(analysis):
        analysis = StepAnalysis(flat, [v.handle for v in bare], batch)
    refuse_joins_in_control_flow(analysis, lines.of)
    outputs = outputs_of(tracing, aliases, whole=sum(summary.num_tensors for summary in found.summaries.found))
    drop_output_controls(analysis, outputs)
    inner = {id(handle): placeholder.op.name for handle, placeholder in tracing.captures}
    gradient_handles = {k: inner[id(handle)] for k, handle in enumerate(found.marked) if id(handle) in inner}
    variables = assign_roles(analysis, bare, gradient_handles, [output.tensor for output in outputs])
    acting = (*filling, *effects(analysis, tracing, outputs))
    roots = [*acting, *(node_of(o.tensor) for o in outputs)]
    refuse_second_derivatives(analysis, roots, lines.of)
    of_interest = lines_of_interest(analysis, acting, outputs, lines)
    graph = TrainingGraph(flat, variables, inputs, outputs, acting, of_interest)
    graph.__dict__["analysis"] = analysis  # a cached property, of the same arguments
    structure = found.summaries.result(tracing.structured_outputs)
    written = tuple(found.summaries.found)
    return CapturedStep(graph, handles, structure, found.concrete, tables=tuple(tables.values()), summaries=written)


def _trace(
    step: Callable[..., Any],
    specs: Sequence[Any],
    names: VariableNames,
    split: Sequence[bool],
    synchronized_batch_norm: bool,
    rows: int | None,
    *,
    fixed: bool,
) -> _Traced:
    """Trace a step for any number of rows, or a fixed one; see :class:`RowCounts` for how many there are."""
    import tensorflow as tf

    asked = RowCounts(rows)
    if fixed:
        return _traced(step, specs, names, synchronized_batch_norm, asked)
    try:
        return _traced(step, _with_rows(specs, split, None), names, synchronized_batch_norm, asked)
    except AutoDistError:
        raise
    except Exception as error:
        if _is_of_outputs(error):
            raise CaptureError(
                f"the step returns something that is not a tensor: {str(error).splitlines()[0]}",
                hint="return tensors, numbers, None, or lists, tuples and dicts of them",
            ) from error
        whole = specs if rows is None else _with_rows(specs, split, rows)
        trains = refuse_fixed_rows(error, asked.lines, lambda: marks_gradients(tf.function(step), tuple(whole), {}))
        if trains is False:
            raise NoGradientError(
                "the step takes no gradient, and is for one number of rows only",
                hint="a training step differentiates its loss by `tf.GradientTape.gradient` and applies the result",
            ) from error
        raise


def _without_loops(traced: Callable[[], _Traced], error: JoinInsideError, *, is_open: bool) -> _Traced:
    """Trace a step again, without its loops of a known number of turns, in which replicas would have to join something.

    Args:
        traced: Traces it.
        error: The refusal of it as it is.
        is_open: Whether it is traced for any number of rows, though the number is known.

    Raises:
        FixedRowsError: The number of turns may be known where that of rows is.
        JoinInsideError: Tracing without loops does not help.
    """
    with unrolling_ranges() as unrolled:
        found = traced()
    if draws_by_order(found.concrete.graph.as_graph_def()):
        raise error
    if unrolled.left and is_open:
        raise FixedRowsError(error.message, hint=error.hint) from error
    if not unrolled.loops:
        raise error
    return found


def _with_rows(specs: Sequence[Any], split: Sequence[bool], rows: int | None) -> list[Any]:
    """Specs of arguments in a tracing for a number of rows; None for any number."""
    import tensorflow as tf

    return [
        tf.TensorSpec([rows, *spec.shape[1:]], spec.dtype) if is_split else spec
        for spec, is_split in zip(specs, split, strict=True)
    ]


def _traced(
    step: Callable[..., Any],
    specs: Sequence[Any],
    names: VariableNames,
    synchronized_batch_norm: bool,
    asked: RowCounts,
) -> _Traced:
    """Trace a step, for just these specs."""
    import tensorflow as tf

    summaries = Summaries()
    with (
        mark_gradients() as marked,
        mark_own_gradients(),
        synchronize_batch_norm(everywhere=synchronized_batch_norm),
        known_to_keep_apart(),
        lookups_with_shapes(),
        large_arrays_as_tensors(names.frozen),
        squeezing_known_dims(),
        noticing_row_counts(asked),
        returning_summaries(summaries),
    ):
        concrete = tf.function(summaries.returned_by(step)).get_concrete_function(*specs)
    return _Traced(concrete, marked, asked, summaries)


def _is_of_outputs(error: Exception) -> bool:
    texts = ("must return zero or more Tensors", "Could not convert")
    return isinstance(error, TypeError) and any(text in str(error) for text in texts)


def _simplify(flat: Any, tracing: Any, variables: Sequence[BareVariable]) -> None:
    """Make a flat graph simpler, and the same on all workers."""
    complete(flat)
    embed_constants(flat, tracing)
    look_up_before_casting(flat)
    settle_squeezed_dims(flat)
    hoist_reads(flat, {v.handle: (v.dtype, v.shape) for v in variables})
    _drop_devices(flat)


def _variables(
    graph: Any, names: VariableNames, tables: Mapping[str, Table]
) -> tuple[list[BareVariable], dict[str, Any]]:
    """The captured variables in capture order, and their eager handles by name."""
    import tensorflow as tf

    pretty = {id(v.handle): v.name.removesuffix(":0") for v in graph.variables}
    bare: list[BareVariable] = []
    handles: dict[str, Any] = {}
    for handle, placeholder in graph.captures:
        if handle.dtype != tf.resource or placeholder.op.name in tables:
            continue
        described = handle._handle_data.shape_and_type[0]
        name = names.name(handle, pretty.get(id(handle)) or _readable(placeholder.op.name))
        shape = tuple(tf.TensorShape(described.shape).as_list())
        bare.append(BareVariable(name, placeholder.op.name, shape, tf.as_dtype(described.dtype).name))
        handles[name] = handle
    return bare, handles


def _tables(graph: Any, graph_def: Any, lines: SourceLines) -> dict[str, Table]:
    """By placeholder, the captured lookup tables.

    Raises:
        CaptureError: Something else is captured that is neither a variable nor a value.
    """
    import tensorflow as tf

    found: dict[str, Table] = {}
    for handle, placeholder in graph.captures:
        if handle.dtype not in (tf.resource, tf.variant):
            continue
        data = getattr(handle, "_handle_data", None)
        if handle.dtype == tf.resource and data is not None and data.is_set and data.shape_and_type:
            continue
        table = None if handle.dtype == tf.variant else read_table(handle, placeholder, graph_def)
        if table is None:
            raise _foreign_resource(placeholder, graph_def, lines)
        found[placeholder.op.name] = table
    return found


def _readable(placeholder: str) -> str:
    return placeholder.removesuffix("/resource").removesuffix("/ReadVariableOp")


def _foreign_resource(placeholder: Any, graph_def: Any, lines: SourceLines) -> CaptureError:
    consumers = placeholder.consumers()
    user = consumers[0] if consumers else placeholder.op
    functions = {function.signature.name: function for function in graph_def.library.function}
    called = reachable_functions(functions, user.node_def)
    inner = {node.op for function in called for node in function.node_def}
    return foreign_resource(user.name, user.type, lines.of(user.name), inner)


def _drop_devices(flat: Any) -> None:
    """Functions of control flow run where they are called; the devices of this process are not those of the run."""
    for function in flat.library.function:
        for node in function.node_def:
            node.device = ""


def _step_input(tensor: Any, is_split: bool) -> StepInput:
    shape = None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
    return StepInput(tensor.name, is_split, shape, tensor.dtype.name)
