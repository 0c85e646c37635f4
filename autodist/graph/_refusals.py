"""Steps that can't be distributed: each refusal names the op and the user's line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._analysis import StepAnalysis
from autodist.graph._graph_def import ancestors
from autodist.graph._marks import MARK, SECOND, parse_mark

__all__ = ["refuse_marks_in_control_flow", "refuse_sparse_second_derivatives"]


def refuse_sparse_second_derivatives(
    analysis: StepAnalysis, roots: Iterable[str], line_of: Callable[[str], str]
) -> None:
    """Refuse to differentiate through a sparse gradient, if the step needs the result."""
    second = {
        name
        for name, node in analysis.nodes.items()
        if MARK in node.attr and parse_mark(node.attr[MARK].s).part == SECOND
    }
    for name in sorted(second & ancestors(analysis.nodes, roots)) if second else ():
        raise CaptureError(
            f"a second derivative goes through a sparse gradient: op `{name}` at {line_of(name)}",
            hint="each replica has other rows of it: use `tf.stop_gradient(slices.values)`, or take the inner gradient "
            "by the looked-up rows",
        )


def refuse_marks_in_control_flow(analysis: StepAnalysis, line_of: Callable[[str], str]) -> None:
    """Refuse gradients inside ``tf.cond`` and ``tf.while_loop``: they can't be joined over replicas there."""
    functions = {f.signature.name: f for f in analysis.graph_def.library.function}
    marked = {name for name, f in functions.items() if any(MARK in node.attr for node in f.node_def)}
    if not marked:
        return
    for node in analysis.nodes.values():
        called = [node.attr[a].func.name for a in ("then_branch", "else_branch", "body", "cond") if a in node.attr]
        called += [branch.name for branch in node.attr["branches"].list.func] if "branches" in node.attr else []
        if marked & _reachable(functions, called):
            raise CaptureError(
                f"a gradient is taken or applied inside control flow: op `{node.name}` ({node.op}) at "
                f"{line_of(node.name)}",
                hint="take the gradient outside of `tf.cond`, `tf.while_loop` and loops over tensors; a Python `for` "
                "over `range(n)` is unrolled and fine",
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
