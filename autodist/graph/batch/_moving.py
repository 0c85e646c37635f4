"""Operators that move elements: where each of them finds the batch afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import prod

from autodist.graph.batch._rows import EVERYWHERE, Batch, Call, Kind, Rows, Size, Value, are_alike, one_selection

MET = Kind.MET


def kept(call: Call) -> Value:
    """The first input, element by element."""
    return call.values[0]


def each_kept(call: Call) -> Value | list[Value]:
    """``IdentityN``: each input."""
    return list(call.values)


def reshaped(call: Call) -> Value:
    """Elements keep their order, so the batch lies where as many elements come before and after it."""
    rows, given = call.rows(), call.shapes[0]
    if rows is None or given is None or call.result is None or not rows.can_move:
        return MET
    before, behind = _product(given[: rows.dim]), _product(given[rows.dim + 1 :])
    if before is None or behind is None:
        return MET
    per_example = None if rows.outer is None or rows.inner is None else before * rows.outer * rows.inner * behind
    shape = _wanted_shape(call, per_example)
    if shape.count(None) != 1:
        return MET
    dim = shape.index(None)
    new_before, new_behind = _product(shape[:dim]), _product(shape[dim + 1 :])
    if not new_before or not new_behind:
        return MET
    outer, exact = _quotient(rows.outer, before, new_before)
    inner, also_exact = _quotient(rows.inner, behind, new_behind)
    return replace(rows, dim=dim, outer=outer, inner=inner) if exact and also_exact else MET


def _wanted_shape(call: Call, per_example: int | None) -> list[int | None]:
    """The shape of a result: what its static shape leaves open, the program may have said in numbers of examples."""
    static = list(call.result or ())
    wanted = call.sizes(1) if static.count(None) > 1 and len(call.values) > 1 else None
    if wanted is None or len(wanted) != len(static):
        return static
    shape = [
        size if known is None and isinstance(size, int) else known for known, size in zip(static, wanted, strict=True)
    ]
    times = [size.times for size in wanted if isinstance(size, Batch)]
    if -1 not in shape or not times or per_example is None:
        return [None if size == -1 else size for size in shape]
    others = prod(size for size in shape if size not in (None, -1))
    left, rest = divmod(per_example, others * times[0]) if others else (0, 1)
    return [int(left) if size == -1 and not rest else size for size in shape]


def _quotient(count: int | None, elements: int, new: int) -> tuple[int | None, bool]:
    if count is None:
        return None, True
    return count * elements // new, count * elements % new == 0


def _product(sizes: Sequence[int | None]) -> int | None:
    return None if None in sizes else prod(size for size in sizes if size is not None)


def expanded(call: Call) -> Value:
    """The tensor with one more dim, of size 1."""
    rows, at, rank = call.rows(), call.numbers(1), call.rank()
    if rows is None or at is None or rank is None:
        return MET
    place = at[0] % (rank + 1)
    if not rows.can_move and place > rank - 1:
        return MET
    return replace(rows, dim=rows.dim + (place <= rows.dim))


def drop_dims(call: Call) -> Value:
    """The tensor without some dims of size 1."""
    rows, shape = call.rows(), call.shapes[0]
    if rows is None or shape is None:
        return MET
    dropped = {d % len(shape) for d in call.node.attr["squeeze_dims"].list.i}
    dropped = dropped or {d for d, size in enumerate(shape) if size == 1}
    if rows.dim in dropped:
        return MET
    found = replace(rows, dim=rows.dim - sum(d < rows.dim for d in dropped))
    return replace(found, position=EVERYWHERE) if not rows.can_move and len(shape) - 1 in dropped else found


def concatenated(call: Call) -> Value:
    """Along another dim, rows side by side; along the batch, one batch after the other."""
    axis, rank = call.numbers(len(call.values) - 1), call.rank()
    parts = list(call.values[:-1])
    if axis is None or rank is None:
        return MET
    dim, rows = axis[0] % rank, [part for part in parts if isinstance(part, Rows)]
    if dim == rows[0].dim:
        return _in_turn(rows, len(parts))
    if len(rows) < len(parts) or not are_alike(rows):
        return MET
    found = replace(rows[0], position=None, stride=1)
    numbered = [k for k, part in enumerate(rows) if part.position is not None]
    if not numbered:
        return found
    if dim != rank - 1 or len(numbered) > 1 or rows[numbered[0]].position != EVERYWHERE:
        return MET
    widths = [None if s is None else s[dim] for s in call.shapes[: numbered[0]]]
    before = _product([sum(w for w in widths if w is not None)]) if None not in widths else None
    return MET if before is None else replace(found, position=before, stride=rows[numbered[0]].stride)


def _in_turn(rows: Sequence[Rows], count: int) -> Value:
    """Batches one after the other."""
    if len(rows) < count or any((r.dim, r.inner, r.position) != (rows[0].dim, rows[0].inner, None) for r in rows):
        return MET
    found = one_selection(*rows) if not any(r.selected for r in rows) else " and ".join(str(r.selection) for r in rows)
    outer = [r.outer for r in rows]
    times = None if None in outer or found else sum(o or 0 for o in outer)
    return replace(rows[0], outer=times, selection=found)


def packed(call: Call) -> Value:
    """Tensors side by side, along a new dim."""
    rows = [value for value in call.values if isinstance(value, Rows)]
    rank = call.rank()
    if len(rows) < len(call.values) or rank is None or not are_alike(rows):
        return MET
    dim = call.node.attr["axis"].i % (rank + 1)
    found = replace(rows[0], dim=rows[0].dim + (dim <= rows[0].dim), position=None, stride=1)
    numbered = [k for k, part in enumerate(rows) if part.position is not None]
    if not numbered:
        return found
    if dim != rank or len(numbered) > 1 or rows[numbered[0]].position != EVERYWHERE:
        return MET
    return replace(found, position=numbered[0], stride=rows[numbered[0]].stride)


def unpacked(call: Call) -> Value:
    """The opposite; not along the batch, whose size is not known."""
    rows, rank = call.rows(), call.rank()
    if rows is None or rank is None or call.node.attr["axis"].i % rank == rows.dim or not rows.can_move:
        return MET
    return replace(rows, dim=rows.dim - (call.node.attr["axis"].i % rank < rows.dim))


def split(call: Call) -> Value:
    """Parts along a dim; along that of the batch, only parts that have each example the same number of times."""
    at = 0 if call.node.op == "Split" else 2
    data = 1 if call.node.op == "Split" else 0
    rows, axis, rank = call.rows(data), call.numbers(at), call.rank(data)
    if rows is None or axis is None or rank is None or not rows.can_move:
        return MET
    if axis[0] % rank != rows.dim:
        return rows
    parts = call.node.attr["num_split"].i
    even = call.node.op == "Split" and rows.outer is not None and rows.outer % parts == 0 and not rows.selected
    return replace(rows, outer=(rows.outer or 0) // parts) if even else MET


def strided_slice(call: Call) -> Value:
    """Some of each example's elements; of the batch only whole batches."""
    rows, shape, begins, ends, strides = call.rows(), call.shapes[0], call.sizes(1), call.sizes(2), call.numbers(3)
    if rows is None or shape is None or begins is None or ends is None or strides is None:
        return MET
    attr = call.node.attr
    masks = {k: attr[k].i for k in ("begin_mask", "end_mask", "shrink_axis_mask", "new_axis_mask", "ellipsis_mask")}
    source = target = 0
    found = rows
    for k in range(len(strides)):
        bit = 1 << k
        if masks["ellipsis_mask"] & bit:
            skipped = len(shape) - source - sum(not masks["new_axis_mask"] >> j & 1 for j in range(k + 1, len(strides)))
            if source <= rows.dim < source + skipped:
                found = replace(found, dim=target + rows.dim - source)
            source, target = source + skipped, target + skipped
        elif masks["new_axis_mask"] & bit:
            target += 1
        else:
            shrinks = bool(masks["shrink_axis_mask"] & bit)
            begin = 0 if masks["begin_mask"] & bit else begins[k]
            end = "all" if masks["end_mask"] & bit else ends[k]
            if source == rows.dim:
                blocks = None if shrinks or strides[k] != 1 else _whole_batches(rows, begin, end)
                if blocks is None:
                    return MET
                found = replace(blocks, dim=target, position=found.position)
            elif source == len(shape) - 1 and not rows.can_move:
                at = EVERYWHERE if shrinks and begin == rows.position else None
                found = replace(found, position=at, stride=rows.stride if at is not None else 1)
            source, target = source + 1, target + (not shrinks)
    return replace(found, dim=target + rows.dim - source) if rows.dim >= source else found


def _whole_batches(rows: Rows, begin: Size, end: Size | str) -> Rows | None:
    """Rows from one place to another, if that is all examples, once or several times."""
    if begin == 0 and end == "all":
        return rows
    if rows.outer is None or rows.inner is None or rows.selected:
        return None
    first = Fraction(0) if begin == 0 else begin.times if isinstance(begin, Batch) else None
    last = Fraction(rows.outer * rows.inner) if end == "all" else end.times if isinstance(end, Batch) else None
    if first is None or last is None:
        return None
    outer, rest = divmod(min(last, Fraction(rows.outer * rows.inner)) - first, rows.inner)
    return replace(rows, outer=int(outer)) if not rest and outer > 0 and first % rows.inner == 0 else None


def cut(call: Call) -> Value:
    """``Slice``: along the batch all of it."""
    rows, begins, sizes = call.rows(), call.sizes(1), call.sizes(2)
    if rows is None or begins is None or sizes is None or not rows.can_move:
        return MET
    begin, size = begins[rows.dim], sizes[rows.dim]
    if begin == 0 and size == -1:
        return rows
    if isinstance(size, Batch):
        first = Fraction(0) if begin == 0 else begin.times if isinstance(begin, Batch) else None
        return MET if first is None else _whole_batches(rows, begin, Batch(first + size.times)) or MET
    return MET


def padded(call: Call) -> Value:
    """Padding, but none along the batch."""
    rows, paddings = call.rows(), call.numbers(1)
    if rows is None or paddings is None or not rows.can_move:
        return MET
    return rows if paddings[2 * rows.dim] == paddings[2 * rows.dim + 1] == 0 else MET


def tiled(call: Call) -> Value:
    """Repeated elements; along the dim of the batch, the batch is repeated as a whole."""
    rows, multiples = call.rows(), call.sizes(1)
    if rows is None:
        return created(call)
    if multiples is None or not rows.can_move:
        return MET
    times = multiples[rows.dim]
    if not isinstance(times, int) or any(isinstance(m, Batch) for m in multiples):
        return MET
    return replace(rows, outer=None if rows.outer is None else rows.outer * times)


def broadcast(call: Call) -> Value:
    """A tensor, as often as a shape wants."""
    rows, rank = call.rows(), call.rank()
    if rows is None:
        return created(call)
    if call.result is None or rank is None or not rows.can_move:
        return MET
    is_one = call.result.count(None) == (call.shapes[0] or ()).count(None)
    return replace(rows, dim=rows.dim + len(call.result) - rank) if is_one else MET


def created(call: Call) -> Value:
    """A tensor as large as the batch, equal or drawn for each example: constants, random numbers.

    In a tensor with half as many rows, or one more, rows belong to no example. Data may select how many there are.
    """
    unknown = None if call.result is None else [d for d, size in enumerate(call.result) if size is None]
    if unknown is None or len(unknown) > 1:
        return MET
    if not unknown:
        return None
    is_followed = any(isinstance(e, Batch) for k in range(len(call.values)) for e in call.sizes(k) or ())
    sizes = [k for k, value in enumerate(call.values) if value is Kind.SIZE]
    if not is_followed and any(map(call.is_of_batch, sizes)):
        return MET
    counted = call.selection_counted(sizes[0]) if len(sizes) == 1 else None
    return Rows(unknown[0], None, None, selection="" if is_followed else None, counted=counted)


def numbered(call: Call) -> Value:
    """``Range``: the numbers of all examples, in their order; other ranges, such as every second number, are not."""
    if call.numbers(0) != (0,) or call.numbers(2) != (1,) or call.sizes(1) != (Batch(Fraction(1)),):
        return MET
    return Rows(0, position=EVERYWHERE)


def one_hot(call: Call) -> Value:
    """A new dim, after the others or before one."""
    rows, rank = call.rows(), call.rank()
    if rows is None or rank is None or rows.position is not None or call.sizes(1) is None:
        return MET
    if any(isinstance(value, Kind) for value in call.values):
        return MET
    axis = call.node.attr["axis"].i % (rank + 1)
    return replace(rows, dim=rows.dim + (axis <= rows.dim))
