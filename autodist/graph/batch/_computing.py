"""Operators that compute: whether each example's results come from its own elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from autodist.graph.batch._rows import (
    EVERYWHERE,
    SYNCHRONIZED,
    Batch,
    Call,
    Kind,
    Rows,
    Rule,
    Value,
    of_same_examples,
    one_selection,
)

MET, DATA = Kind.MET, Kind.DATA


def _aligned(call: Call, positions: Sequence[int] | None = None) -> Rows | None:
    """Where the batch is in the result of broadcasting; None where examples meet, or their numbers do."""
    places = range(len(call.values)) if positions is None else positions
    ranks = [call.rank(k) for k in places]
    known = [rank for rank in ranks if rank is not None]
    if len(known) < len(ranks):
        return None
    rank, found = max(known), []
    for k in places:
        value, own = call.values[k], call.rank(k)
        if isinstance(value, Rows):
            found.append(replace(value, dim=value.dim + rank - (own or 0)))
    first = found[0]
    if not of_same_examples(*found):
        return None
    if any(not first.lies_as(other) or other.position is not None for other in found):
        return None
    at = next((r for r in found if r.outer is not None and r.inner is not None), first)
    if any(_has_other_size(call, k, at.dim - rank) for k in places):
        return None
    return replace(at, selection=one_selection(*found), position=None)


def _has_other_size(call: Call, position: int, dim: int) -> bool:
    """Whether an input without a batch has a size along it: then the size of the batch is known to the program."""
    shape = call.shapes[position] or ()
    if isinstance(call.values[position], Rows) or len(shape) < -dim:
        return False
    return shape[dim] != 1


def elementwise(call: Call) -> Value:
    """Any number of inputs, broadcast to one shape."""
    found = _aligned(call)
    return MET if found is None or not _one_batch(call) else found


def _one_batch(call: Call) -> bool:
    """Whether the result has no more open dims than its inputs."""
    open_dims = max((shape or ()).count(None) for shape in call.shapes)
    return call.result is None or call.result.count(None) <= open_dims


def chosen(call: Call) -> Value:
    """``Select``: one of two, element by element; what `tf.vectorized_map` writes for ``range(n)`` is still that.

    It is ``where(n >= 1, range(n), 0)``.
    """
    if Kind.SIZE not in call.values:
        return elementwise(call)
    rows = call.rows(1)
    are_numbers = rows is not None and rows.position == EVERYWHERE and rows.stride == 1
    is_by_size = call.values[0] is Kind.SIZE and call.values[2] is None and call.numbers(2) == (0,)
    return rows if are_numbers and is_by_size else MET


def numbers_plus(call: Call) -> Value:
    """Addition; to row numbers that are multiples of a stride, a value smaller than the stride may be added."""
    numbers = [v for v in call.values if isinstance(v, Rows) and v.position == EVERYWHERE]
    if len(numbers) != 1 or numbers[0].stride == 1:
        return elementwise(call)
    stride = numbers[0].stride
    if any(not 0 <= added < stride for k in range(len(call.values)) for added in call.numbers(k) or ()):
        return MET  # these name what belongs to other examples
    plain = [replace(v, position=None) if isinstance(v, Rows) else v for v in call.values]
    found = elementwise(replace(call, values=plain))
    return replace(found, position=EVERYWHERE, stride=stride) if isinstance(found, Rows) else found


def numbers_times(call: Call) -> Value:
    """Multiplication; of numbers of rows by a constant."""
    return _scaled(call, lambda stride, by: (stride * by, True))


def numbers_over(call: Call) -> Value:
    """Division of numbers of rows by the stride that they have, or a part of it; or what remains of it."""
    if call.node.op == "FloorMod":
        return _scaled(call, lambda stride, by: (0, stride % by == 0), rest=True)
    return _scaled(call, lambda stride, by: (stride // by, stride % by == 0))


def _scaled(call: Call, scale: Callable[[int, int], tuple[int, bool]], *, rest: bool = False) -> Value:
    numbers = [k for k in range(len(call.values)) if (v := call.rows(k)) is not None and v.position == EVERYWHERE]
    if len(numbers) != 1 or len(call.values) != 2:
        return elementwise(call)
    by, rows = call.numbers(1 - numbers[0]), call.rows(numbers[0])
    if rows is None or by is None or len(by) != 1 or by[0] <= 0:
        return MET
    stride, is_exact = scale(rows.stride, by[0])
    if not is_exact:
        return MET
    return replace(rows, position=None, stride=1) if rest else replace(rows, stride=stride)


def by_example(*inputs: int) -> Rule:
    """Results have one row for each row of these inputs, along dim 0; the others have no batch."""
    return lambda call: _first_dims(call, inputs)


def _first_dims(call: Call, inputs: Sequence[int]) -> Value:
    places = [k for k, value in enumerate(call.values) if isinstance(value, Rows)]
    rows = [value for value in call.values if isinstance(value, Rows)]
    fits = set(places) <= set(inputs) and all(r.dim == 0 and r.position is None and r.lies_as(rows[0]) for r in rows)
    return rows[0] if fits and of_same_examples(*rows) else MET


def scattered(call: Call, numbers_at: int = 1, length_at: int | None = None) -> Value:
    """Sums of rows that have the same number, over the batch.

    If the numbers are those of the examples, the result has a row for each, provided it has as many rows as examples.

    Args:
        call: The operator's.
        numbers_at: The input that says where each row goes; numbers of rows in another one are added up as values.
        length_at: The input whose first entry is the number of rows of the result; None if the largest number decides.
    """
    rows = [value for value in call.values if isinstance(value, Rows)]
    if any(r.dim != 0 or not r.lies_as(rows[0]) for r in rows) or not of_same_examples(*rows):
        return MET
    numbers = [r for r in rows if r.position is not None]
    if any(r is not call.rows(numbers_at) for r in numbers):
        return MET
    if call.result is not None and None not in call.result:
        return MET if numbers else DATA
    ordered = numbers and all(n.are_numbers(EVERYWHERE, 0) for n in numbers)
    is_open = call.result is not None and call.result[0] is None
    return Rows(0) if ordered and is_open and _is_as_long_as_batch(call, numbers, length_at) else MET


def _is_as_long_as_batch(call: Call, numbers: Sequence[Rows], length_at: int | None) -> bool:
    """Whether a result has a row for each example, by its given length, or because the numbers are of all examples."""
    if length_at is None:
        return all(n.selection == "" for n in numbers)
    return (call.sizes(length_at) or ())[:1] == (Batch(Fraction(1)),)


def segments(call: Call) -> Value:
    """Sums or means of a table's rows, by the numbers of the examples that they are for."""
    numbers = call.rows(2)
    is_own = numbers is not None and numbers.are_numbers(EVERYWHERE)
    return Rows(0) if is_own and call.values[0] is None else MET


def sparse_product(call: Call) -> Value:
    """``SparseTensorDenseMatMul``: rows of a sparse matrix, each by itself."""
    at, values, dense = call.rows(0), call.rows(1), call.values[3]
    flipped = call.node.attr["adjoint_a"].b
    is_own = at is not None and at.position == 0 and at.among == ""
    return Rows(0) if is_own and values and dense is None and not flipped else MET


def sparse_to_dense(call: Call) -> Value:
    """``SparseToDense``: an element belongs to the example that its coordinates name."""
    at = call.rows(0)
    return Rows(0) if at is not None and at.are_numbers(EVERYWHERE, 0) else MET


def to_blocks(call: Call) -> Value:
    """``SpaceToBatchND``: parts of images become a batch each."""
    rows, shape = call.rows(), call.numbers(1)
    if rows is None or shape is None or rows.dim or rows.position is not None or rows.outer is None:
        return MET
    return replace(rows, outer=rows.outer * _times(shape))


def from_blocks(call: Call) -> Value:
    """``BatchToSpaceND``: the opposite."""
    rows, shape = call.rows(), call.numbers(1)
    if rows is None or shape is None or rows.dim or rows.position is not None or rows.outer is None:
        return MET
    return MET if rows.outer % _times(shape) else replace(rows, outer=rows.outer // _times(shape))


def _times(shape: Sequence[int]) -> int:
    found = 1
    for size in shape:
        found *= size
    return found


def sampled_boxes(call: Call) -> Value:
    """``CropAndResize``: boxes of images, by the images' numbers."""
    images, numbers = call.rows(0), call.rows(2)
    if images is None or numbers is None or images.dim or not numbers.are_numbers(EVERYWHERE, among=images.selection):
        return MET
    return replace(numbers, position=None)


def statistics(call: Call) -> Value | list[Value]:
    """``FusedBatchNorm``: in training by the statistics of a replica, as batch normalization is documented."""
    rows = call.rows()
    is_apart = rows is not None and not rows.dim and SYNCHRONIZED not in call.node.attr
    return [rows, *([None] * (len(call.results) - 1))] if is_apart else MET
