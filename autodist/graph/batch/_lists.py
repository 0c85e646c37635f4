"""Lists of tensors, over which loops iterate: each tensor has the whole batch, or belongs to one example."""

from __future__ import annotations

from dataclasses import replace

from autodist.graph.batch._rows import Call, Kind, Rows, Rule, Value
from autodist.graph.operators import ListUse, meaning

MET = Kind.MET
_EXAMPLES = Rows(-1)
"""A list with an example's tensor at each place."""


def from_tensor(call: Call) -> Value:
    """A tensor's parts along dim 0, which are time steps or examples, as a list."""
    rows = call.rows()
    if rows is None or rows.position is not None:
        return call.values[0]
    if rows.dim:
        return replace(rows, dim=rows.dim - 1)
    return _EXAMPLES if rows.outer == rows.inner == 1 and not rows.selected else MET


def to_tensor(call: Call) -> Value:
    """The opposite."""
    rows = call.rows()
    return replace(rows, dim=rows.dim + 1) if rows is not None else call.values[0]


def joined_tensor(call: Call) -> Value | list[Value]:
    """The tensors one after the other along dim 0."""
    rows = call.rows()
    if rows is None:
        return MET
    if rows.dim == -1:  # each part belongs to one example, and all have one length
        return [Rows(0, 1, None), None]
    return [replace(rows, outer=None) if rows.dim == 0 else rows, None]


def item(call: Call) -> Value:
    """One of the tensors."""
    rows = call.rows()
    return Kind.ROW if rows == _EXAMPLES else call.values[0]


def with_item(call: Call) -> Value:
    """One of the tensors put in its place, or after the others."""
    given = call.values[2 if meaning(call.node.op).list_use is ListUse.SETS else 1]
    if given is Kind.ROW:
        given = _EXAMPLES
    return merged(call.values[0], given)


def popped(call: Call) -> Value | list[Value]:
    """The list without its last tensor, and that tensor."""
    return [call.values[0], item(call)]


def some_items(call: Call) -> Value:
    """Some of the tensors, by numbers that are constant: steps of time."""
    rows = call.rows()
    return to_tensor(call) if rows is not None and rows.dim >= 0 and call.values[1] is None else MET


def merged(one: Value, other: Value) -> Value:
    """The facts that hold for either of two tensors."""
    if one == other or other is None:
        return one
    if one is None:
        return other
    if isinstance(one, Rows) and isinstance(other, Rows) and one.dim == other.dim:
        outer = one.outer if other.outer is None else other.outer if one.outer is None else one.outer
        inner = one.inner if other.inner is None else other.inner if one.inner is None else one.inner
        found = replace(one, outer=outer, inner=inner, selection=_either(one.selection, other.selection))
        agrees = other.outer in (None, outer) and other.inner in (None, inner) and one.position == other.position
        agrees = agrees and (one.position is None or one.among == other.among)
        return found if agrees else MET
    sizes = {Kind.SIZE, Kind.DATA}
    return Kind.DATA if {one, other} == sizes else MET


def _either(one: str | None, other: str | None) -> str | None:
    """The selection of rows that are those of one or of another one."""
    if one == other or other is None:
        return one
    return other if one is None else "|".join(sorted({*one.split("|"), *other.split("|")}))


def ctc_loss(call: Call) -> Value | list[Value]:
    """Inputs by time and example, labels by coordinates."""
    inputs, labels = call.rows(0), call.rows(1)
    time_first = inputs is not None and inputs.dim == 1 and inputs.outer in (1, None)
    if not time_first or inputs is None or labels is None or labels.position != 0:
        return MET
    return [Rows(0), inputs]


RULES: dict[ListUse | None, Rule] = {
    ListUse.UNSTACKS: from_tensor,
    ListUse.STACKS: to_tensor,
    ListUse.CONCATENATES: joined_tensor,
    ListUse.GETS: item,
    ListUse.SETS: with_item,
    ListUse.APPENDS: with_item,
    ListUse.POPS: popped,
    ListUse.PICKS: some_items,
}
