"""Finds the batch in the results of an operator with an index expression: along the same index as in its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autodist.graph.batch._rows import EVERYWHERE, Call, Kind, Rows, Value, of_same_examples, one_selection
from autodist.graph.operators import Access, Expression, Signature, expression_of, passes_on


def by_indices(call: Call) -> Value | list[Value]:
    """Examples stay apart if all inputs with a batch have it along one index, which no other input and no window has.

    The results have the batch along that index. If the index is reduced, they are values of all examples.
    """
    found = expression_of(_signature(call))
    batch = None if found is None else _index_of_batch(call, found)
    if found is None or batch is None:
        return Kind.MET
    index, rows = batch
    if index in found.reduced:
        return Kind.DATA
    return [_placed(access, index, rows) for access in found.outputs]


def _signature(call: Call) -> Signature:
    def constant(position: int) -> np.ndarray | None:
        numbers = call.numbers(position)
        return None if numbers is None else np.array(numbers)

    return Signature(call.node.op, tuple(call.shapes), tuple(call.results), call.node.attr, constant)


def _index_of_batch(call: Call, expression: Expression) -> tuple[str, Rows] | None:
    """The index of the batch in the inputs, and its rows; None if examples meet, or their numbers are computed with."""
    found = list(_places(call, expression))
    indices = {index for index, _ in found}
    index = indices.pop() if len(indices) == 1 else None
    if index is None or index in expression.joined or any(_has_it(call, expression, k, index) for k in _others(call)):
        return None
    rows = [value for _, value in found]
    outer = {value.outer for value in rows} - {None}
    inner = {value.inner for value in rows} - {None}
    if len(outer) > 1 or len(inner) > 1 or not (_keeps_numbers(call, rows) and of_same_examples(*rows)):
        return None
    return index, replace(
        rows[0],
        outer=next(iter(outer), None),
        inner=next(iter(inner), None),
        selection=one_selection(*rows),
    )


def _places(call: Call, expression: Expression) -> Iterator[tuple[str | None, Rows]]:
    for operand, value in zip(expression.inputs, call.values, strict=True):
        if isinstance(value, Rows):
            place = operand.dims[value.dim] if isinstance(operand, Access) else None
            yield None if place is None else place.only, value


def _others(call: Call) -> Iterator[int]:
    return (k for k, value in enumerate(call.values) if not isinstance(value, Rows))


def _has_it(call: Call, expression: Expression, position: int, index: str) -> bool:
    """Whether an input without a batch has a size along it: then the size of the batch is known to the program."""
    operand, shape = expression.inputs[position], call.shapes[position] or ()
    return isinstance(operand, Access) and any(shape[dim] != 1 for dim in operand.dims_of(index))


def _keeps_numbers(call: Call, rows: list[Rows]) -> bool:
    """Whether no input holds numbers of examples, or the operator only moves them."""
    numbers = {value.position for value in rows} - {None}
    return not numbers or (numbers == {EVERYWHERE} and passes_on(call.node.op))


def _placed(access: Access | None, index: str, rows: Rows) -> Value:
    dims = () if access is None else access.dims_of(index)
    if access is None or not dims:
        return None
    place = access.dims[dims[0]]
    return replace(rows, dim=dims[0]) if len(dims) == 1 and place is not None and place.only == index else Kind.MET
