"""Steps that can't be distributed: each refusal names the op and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._graph_def import ancestors, reachable_functions
from autodist.graph.analysis import StepAnalysis
from autodist.graph.annotations import INSIDE, MARK, SECOND, parse_mark
from autodist.graph.operators import CONTROL_FLOW

_TAKEN = (
    "a gradient is taken",
    "call `tape.gradient` outside of `tf.cond`, `tf.while_loop` and loops over tensors, an optimizer may be applied to "
    "the result inside; a Python `for` over `range(n)` is unrolled and fine",
)
_APPLIED = (
    "an optimizer is applied to a gradient that is made",
    "make the gradient outside of `tf.cond`, `tf.while_loop` and loops over tensors; to apply those of several steps "
    "at once, give Keras' optimizer `gradient_accumulation_steps`",
)
_DATA = (
    "goes over a dataset",
    "a step takes one batch: write the loop outside of it, `for x, y in ad.shard(dataset): step(x, y)`",
)
_FOREIGN = {
    "summary": (
        "writes a summary in a part of it",
        "a step may write summaries, but not in `tf.cond`, in loops over tensors or in another `tf.function`: write it "
        "in the step itself, perhaps under `tf.summary.record_if(condition)`, or after the step, of what that returns",
    ),
    "dataset": _DATA,
    "iterator": _DATA,
    "lookup": (
        "uses a lookup table",
        "look up in the input pipeline, `dataset.map(lambda x, y: (table.lookup(x), y))`, and pass the step tensors",
    ),
    "queue": (
        "uses a queue",
        "call its methods outside of the step: return what is to be enqueued, and pass what was dequeued",
    ),
}
"""By words in the names of ops that use it, what is not a variable, and what to do instead."""
_OTHER = (
    "uses a resource that is not a variable",
    "do what uses it outside of the step: pass the step what it gives, and return what it is to take",
)


class JoinInsideError(CaptureError):
    """Replicas would have to join something inside of a loop or a branch."""


def refuse_second_derivatives(analysis: StepAnalysis, roots: Iterable[str], line_of: Callable[[str], str]) -> None:
    """Refuse to differentiate through what replicas can't join again, if the step needs the result."""
    marks = {name: parse_mark(node.attr[MARK].s) for name, node in analysis.nodes.items() if MARK in node.attr}
    sparse = {name for name, mark in marks.items() if mark.part == SECOND}
    needed = ancestors(analysis.nodes, roots) if sparse else set()
    for name in sorted(sparse & needed):
        raise CaptureError(
            f"a second derivative goes through a sparse gradient: op `{name}` at {line_of(name)}",
            hint="each replica has other rows of it: use `tf.stop_gradient(slices.values)`, or take the inner gradient "
            "by the looked-up rows",
        )


def refuse_joins_in_control_flow(analysis: StepAnalysis, line_of: Callable[[str], str]) -> None:
    """Refuse what would have to be joined over replicas inside ``tf.cond`` and ``tf.while_loop``.

    Raises:
        JoinInsideError: There is such a thing.
    """
    functions = {f.signature.name: f for f in analysis.graph_def.library.function}
    kinds = {name: kind for name, f in functions.items() if (kind := _joined_in(f, analysis)) is not None}
    for node in analysis.nodes.values() if kinds else ():
        called = reachable_functions(functions, node) if node.op in CONTROL_FLOW else ()
        found = kinds.keys() & {function.signature.name for function in called}
        if found:
            what, hint = kinds[min(found)]
            where = f"op `{node.name}` ({node.op}) at {line_of(node.name)}"
            raise JoinInsideError(f"{what} inside control flow: {where}", hint=hint)


def _joined_in(function: Any, analysis: StepAnalysis) -> tuple[str, str] | None:
    """The part of a function of control flow that would have to be joined, and what to do instead."""
    marks = [parse_mark(node.attr[MARK].s) for node in function.node_def if MARK in node.attr]
    inside = [int(node.attr[INSIDE].s) for node in function.node_def if INSIDE in node.attr]
    if any(not mark.late for mark in marks) or any(analysis.reduction_of_target(target) != "sum" for target in inside):
        return _TAKEN
    return _APPLIED if marks else None


def foreign_resource(op: str, op_type: str, line: str, inner: Iterable[str]) -> CaptureError:
    """The refusal of a step that uses a resource which is neither a variable nor a value.

    Args:
        op: The name of the op that uses it.
        op_type: Its type.
        line: Where it was written.
        inner: The types of ops in the functions that it calls.
    """
    kind = " ".join((op, op_type, *inner)).lower()
    what, hint = next((told for word, told in _FOREIGN.items() if word in kind), _OTHER)
    return CaptureError(f"the step {what}: op `{op}` ({op_type}) at {line}", hint=hint)
