"""Operators that find, pick or change rows by their numbers: whether a number is that of the same example."""

from __future__ import annotations

from dataclasses import replace

from autodist.graph.batch._rows import EVERYWHERE, Call, Kind, Rows, Value, are_alike, of_same_examples

MET = Kind.MET


def looked_up(call: Call) -> Value:
    """``ResourceGather``: rows of a variable."""
    at = call.rows(1)
    return MET if at is None or at.position is not None else at


def gathered(call: Call) -> Value:
    """Rows of a table, or each example's own elements."""
    table, at = call.rows(0), call.rows(1)
    rank, index_rank, axes = call.rank(0), call.rank(1), call.numbers(2) if len(call.values) > 2 else (0,)
    batch_dims = call.node.attr["batch_dims"].i if "batch_dims" in call.node.attr else 0
    if rank is None or index_rank is None or axes is None:
        return MET
    axis, batch_dims = axes[0] % rank, batch_dims % (index_rank + 1)
    if table is None:
        return MET if at is None or at.position is not None else replace(at, dim=axis + at.dim - batch_dims)
    if batch_dims and at is not None:
        aligned = table.dim == at.dim < batch_dims and are_alike([table, at]) and at.position is None
        return table if aligned else MET
    if table.dim != axis:
        if at is not None or not table.can_move:
            return MET
        if table.dim < batch_dims:
            return MET  # there are indices for each example, for a number of examples that the script knows
        return replace(table, dim=table.dim if table.dim < axis else table.dim - 1 + index_rank - batch_dims)
    if at is None or at.position != EVERYWHERE or not _finds(at, table):
        return MET
    return replace(at, dim=axis + at.dim, position=table.position, stride=table.stride, inner=at.inner)


def _finds(numbers: Rows, table: Rows) -> bool:
    """Whether numbers of rows name rows of the same example."""
    if numbers.among != table.selection and None not in (numbers.among, table.selection):
        return False
    return table.outer in (1, None) and (table.inner is None or table.inner == numbers.stride)


def gathered_by_coordinates(call: Call) -> Value:
    """``GatherNd``: as above, with a coordinate per dim."""
    table, at, shape = call.rows(0), call.rows(1), call.shapes[1]
    if at is None or shape is None or not shape or shape[-1] is None:
        return MET
    if table is None:
        return MET if at.position is not None else at
    column = 0 if at.position == EVERYWHERE and shape[-1] == 1 else at.position
    if table.dim >= shape[-1] or column != table.dim or not _finds(at, table):
        return MET
    return replace(at, position=None, stride=1)


def selected(call: Call) -> Value:
    """``Where``: the coordinates of what is true, in their order."""
    rows, rank = call.rows(), call.rank()
    if rows is None or rank is None or rows.position is not None or rows.inner is None or rows.outer != 1:
        return MET
    order = 1 if rows.dim == 0 else None
    column = EVERYWHERE if rank == 1 else rows.dim
    return Rows(0, order, order, call.computed_as(0), position=column, stride=rows.inner, among=rows.selection)


def partitioned(call: Call) -> Value | list[Value]:
    """``DynamicPartition``: the examples of each kind."""
    rows, kinds = call.rows(0), call.rows(1)
    if rows is None or kinds is None or rows.dim or kinds.dim or not are_alike([rows, kinds]) or not rows.can_move:
        return MET
    return [replace(rows, selection=f"{call.computed_as(1)} is {k}") for k in range(len(call.results))]


def stitched(call: Call) -> Value:
    """``DynamicStitch``: parts of a batch, put where their numbers say."""
    half = len(call.values) // 2
    numbers = [call.rows(k) for k in range(half)]
    if not all(n is not None and n.are_numbers(EVERYWHERE) for n in numbers):
        return MET
    parts = [call.rows(k) for k in range(half, 2 * half)]
    fits = all(p is not None and p.dim == 0 and p.position is None for p in parts)
    pairs = zip(numbers, parts, strict=True)
    return Rows(0) if fits and all(n and p and of_same_examples(n, p) for n, p in pairs) else MET


def written_to_rows(call: Call) -> Value:
    """Updates of places that are named by coordinates: each example its own places, by what belongs to it."""
    table, at, updates, shape = call.rows(0), call.rows(1), call.values[2], call.shapes[1]
    if table is None or at is None or not shape or not isinstance(updates, Rows | None):
        return MET
    if any(r.position is not None for r in (table, updates) if r) or not of_same_examples(at, updates or at):
        return MET
    column = 0 if at.position == EVERYWHERE and shape[-1] == 1 else at.position
    return table if column == table.dim and _finds(at, table) else MET
