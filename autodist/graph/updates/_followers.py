"""Variables that follow others, such as means of weights over time: parts of them lie where those of the others are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod
from typing import Any

from autodist.graph._graph_def import data_inputs, node_of, output_shape
from autodist.graph._variables import Role, Variable
from autodist.graph.analysis import StepAnalysis
from autodist.graph.operators import Handle, Passes, broadcasts, meaning, passes_on


def with_followers(
    analysis: StepAnalysis,
    variables: tuple[Variable, ...],
    trained: Collection[str],
    returned: Collection[str],
    numbers: Collection[str],
) -> tuple[Variable, ...]:
    """The variables, with those as slots that follow trained ones, element by element.

    Such as means of weights, which are computed from them, or what Adafactor divides gradients by, which it computes
    from sums of rows and columns. What a step computes losses from is none of them: workers need all of it.

    Args:
        analysis: The step.
        variables: Its variables.
        trained: The names of those that may be followed.
        returned: The nodes whose results the step returns, or that act outside of it.
        numbers: The nodes that put elements together, of whose values all workers have the whole.
    """
    by_handle = {v.handle: v for v in variables}
    written: dict[str, list[str]] = {}
    for name, write in analysis.writes.items():
        for handle in write.handles:
            written.setdefault(handle, []).append(name)
    found = []
    for variable in variables:
        owner = None
        if variable.role in (Role.COUNTER, Role.STATISTIC) and prod(variable.shape) > 1:
            writes = written.get(variable.handle, [])
            owner = _followed(analysis, variable, writes, by_handle) or _taken_by(analysis, variable, writes, by_handle)
        is_follower = owner is not None and owner in trained and _is_for_updates(analysis, variable, returned, numbers)
        found.append(replace(variable, role=Role.SLOT, owners=(owner,)) if owner and is_follower else variable)
    return tuple(found)


def _followed(
    analysis: StepAnalysis, variable: Variable, writes: Collection[str], by_handle: Mapping[str, Variable]
) -> str | None:
    """The trained variable of its shape from whose elements, its own and single numbers a variable is computed."""
    found: set[str] = set()
    seen: set[str] = set()
    stack: list[str] = []
    for name in writes:
        node = analysis.nodes[name]
        if meaning(node.op).handle is not Handle.ASSIGNS or analysis.touched_by(name) != (variable.handle,):
            return None
        stack.extend(node_of(tensor) for tensor in data_inputs(node)[1:])
    while stack:
        name = stack.pop()
        if name in seen:
            continue
        seen.add(name)
        node = analysis.nodes[name]
        if _is_one_number(node):
            continue
        if node.op == "ReadVariableOp":
            found.update(analysis.touched_by(name))
        elif output_shape(node) == variable.shape and _is_elementwise(node.op):
            stack.extend(node_of(tensor) for tensor in data_inputs(node))
        else:
            return None
    return _the_one(found, variable, by_handle)


def _taken_by(
    analysis: StepAnalysis, variable: Variable, writes: Collection[str], by_handle: Mapping[str, Variable]
) -> str | None:
    """The trained variable of its shape into whose elements, and no others, those of a variable go."""
    if any(meaning(analysis.nodes[name].op).handle is not Handle.ASSIGNS for name in writes):
        return None
    found: set[str] = set()
    seen: set[str] = set()
    stack = [name for name, handles in analysis.reads.items() if variable.handle in handles]
    while stack:
        name = stack.pop()
        if name in analysis.writes:
            found.update(analysis.touched_by(name))
        elif name not in seen and output_shape(analysis.nodes[name]) == variable.shape:
            stack.extend(analysis.consumers.get(name, ()))
        seen.add(name)
    return _the_one(found, variable, by_handle)


def _the_one(handles: set[str], variable: Variable, by_handle: Mapping[str, Variable]) -> str | None:
    """The name of the only variable among these besides a given one, if it is trained and has its shape."""
    others = [by_handle[handle] for handle in handles - {variable.handle}]
    is_followed = len(others) == 1 and others[0].role is Role.TRAINABLE and others[0].shape == variable.shape
    return others[0].name if is_followed else None


def _is_for_updates(
    analysis: StepAnalysis, variable: Variable, returned: Collection[str], numbers: Collection[str]
) -> bool:
    """Whether nothing is made of a variable's values but those that it gets itself, or that weights get.

    On the way, elements may be put together into numbers. All workers have these: an update may compute anything of
    them, but no loss may.
    """
    stack = [(name, False) for name, handles in analysis.reads.items() if variable.handle in handles]
    seen: set[tuple[str, bool]] = set()
    while stack:
        name, is_of_numbers = found = stack.pop()
        if found in seen or name in analysis.writes:
            continue
        seen.add(found)
        is_of_numbers |= name in numbers
        if name in returned or name in analysis.marks:
            return False
        if not (is_of_numbers or _is_of_update(analysis.nodes[name].op)):
            return False
        stack.extend((reader, is_of_numbers) for reader in analysis.consumers.get(name, ()))
    return True


def _is_of_update(op: str) -> bool:
    return op == "ReadVariableOp" or _is_elementwise(op)


def _is_elementwise(op: str) -> bool:
    return broadcasts(op) or meaning(op).chooses or passes_on(op, Passes.SAME, Passes.TYPE)


def _is_one_number(node: Any) -> bool:
    shape = output_shape(node)
    return shape is not None and None not in shape and prod(size or 0 for size in shape) == 1
