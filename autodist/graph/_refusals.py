"""Steps that can't be distributed: each refusal names the op and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._analysis import StepAnalysis
from autodist.graph._graph_def import ancestors
from autodist.graph._joins import JOIN, Join
from autodist.graph._marks import MARK, SECOND, parse_mark

__all__ = ["refuse_joins_in_control_flow", "refuse_other_batch_norms", "refuse_second_derivatives"]

_BATCH_NORMS = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"})


def refuse_second_derivatives(analysis: StepAnalysis, roots: Iterable[str], line_of: Callable[[str], str]) -> None:
    """Refuse to differentiate through what replicas can't join again, if the step needs the result."""
    marks = {name: parse_mark(node.attr[MARK].s) for name, node in analysis.nodes.items() if MARK in node.attr}
    sparse = {name for name, mark in marks.items() if mark.part == SECOND}
    joins = {name for name, kind in analysis.joins.items() if kind is Join.SECOND}
    needed = ancestors(analysis.nodes, roots) if sparse or joins else set()
    for name in sorted(sparse & needed):
        raise CaptureError(
            f"a second derivative goes through a sparse gradient: op `{name}` at {line_of(name)}",
            hint="each replica has other rows of it: use `tf.stop_gradient(slices.values)`, or take the inner gradient "
            "by the looked-up rows",
        )
    for name in sorted(joins & needed):
        raise CaptureError(
            f"a second derivative goes through synchronized batch normalization: op `{name}` at {line_of(name)}",
            hint="use GroupNormalization or LayerNormalization in that model, or BatchNormalization by replica",
        )


def refuse_other_batch_norms(analysis: StepAnalysis, roots: Iterable[str], line_of: Callable[[str], str]) -> None:
    """Refuse batch normalization that only knows its replica's batch, where all of it was to be synchronized."""
    needed = ancestors(analysis.nodes, roots)
    for name in analysis.order:
        node = analysis.nodes[name]
        if name in needed and node.op in _BATCH_NORMS and node.attr["is_training"].b:
            raise CaptureError(
                f"batch normalization can't be synchronized: op `{name}` ({node.op}) at {line_of(name)}",
                hint="use `keras.layers.BatchNormalization` of Keras 3",
            )


def refuse_joins_in_control_flow(analysis: StepAnalysis, line_of: Callable[[str], str]) -> None:
    """Refuse what would have to be joined over replicas inside ``tf.cond`` and ``tf.while_loop``."""
    _refuse_in_control_flow(
        analysis,
        line_of,
        MARK,
        "a gradient is taken or applied",
        "take the gradient outside of `tf.cond`, `tf.while_loop` and loops over tensors; a Python `for` over "
        "`range(n)` is unrolled and fine",
    )
    _refuse_in_control_flow(
        analysis,
        line_of,
        JOIN,
        "batch normalization is synchronized",
        "call the layer outside of `tf.cond`, `tf.while_loop` and loops over tensors, or let it normalize by replica",
    )


def _refuse_in_control_flow(
    analysis: StepAnalysis, line_of: Callable[[str], str], attribute: str, what: str, hint: str
) -> None:
    functions = {f.signature.name: f for f in analysis.graph_def.library.function}
    marked = {name for name, f in functions.items() if any(attribute in node.attr for node in f.node_def)}
    if not marked:
        return
    for node in analysis.nodes.values():
        called = [node.attr[a].func.name for a in ("then_branch", "else_branch", "body", "cond") if a in node.attr]
        called += [branch.name for branch in node.attr["branches"].list.func] if "branches" in node.attr else []
        if marked & _reachable(functions, called):
            raise CaptureError(
                f"{what} inside control flow: op `{node.name}` ({node.op}) at {line_of(node.name)}",
                hint=hint,
            )


def _reachable(functions: dict[str, Any], names: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    stack = [name for name in names if name]
    while stack:
        name = stack.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in functions[name].node_def:
            for attr in node.attr.values():
                stack.extend([attr.func.name] if attr.func.name else [])
                stack.extend(f.name for f in attr.list.func)
    return seen
