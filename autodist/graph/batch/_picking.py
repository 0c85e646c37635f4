"""Picking by number: whether the picked element exists in a graph whose shapes are those of a part of the batch.

TensorFlow's shape functions see ``x[20]``, but neither what is looked up by numbers nor what a loop goes through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from autodist.graph.operators import ListUse, RangeUse, meaning


def picked_beyond(operation: Any) -> tuple[int, int] | None:
    """An index that is out of bounds in an op that picks elements, and their number; None if all are in bounds.

    Args:
        operation: An op of a ``tf.Graph``. What can't be known before the step runs is taken to be there.
    """
    for numbers, size in _picked(operation):
        if numbers is not None and size is not None and numbers.size and numbers.max() >= size:
            return int(numbers.max()), size
    return None


def _picked(operation: Any) -> Iterator[tuple[np.ndarray | None, int | None]]:
    """Numbers by which an op picks, and of how many elements."""
    inputs, kind = operation.inputs, operation.type
    if kind == "GatherV2":
        axis = _value(inputs[2])
        yield _value(inputs[1]), None if axis is None else _size(inputs[0], int(axis))
    elif kind == "OneHot":
        depth = _value(inputs[1])
        yield _value(inputs[0]), None if depth is None else int(depth)
    elif kind == "GatherNd" or meaning(kind).updates_places:
        places = _value(inputs[1])
        if places is not None:
            yield from ((places[..., dim], _size(inputs[0], dim)) for dim in range(places.shape[-1]))
    elif meaning(kind).range_use is RangeUse.SLICES:
        begin, size = _value(inputs[1]), _value(inputs[2])
        if begin is not None and size is not None:
            yield from ((begin[dim] + size[dim] - 1, _size(inputs[0], dim)) for dim in range(len(begin)))


def turns(loop: Any, bodies: Iterable[Any], rows: int) -> Iterator[int]:
    """How often a loop turns, as far as its constants tell, if it picks one of this many rows by a number of its own.

    Args:
        loop: The op.
        bodies: The ``tf.Graph`` of each function that it calls, with the shapes that these get.
        rows: How many rows there are.
    """
    operations = [operation for body in bodies for operation in body.get_operations()]
    if any(_picks_by_turn(operation, rows) for operation in operations):
        for tensor in loop.inputs:
            count = _value(tensor) if tensor.dtype.is_integer and tensor.shape.rank == 0 else None
            if count is not None:
                yield int(count)


def _picks_by_turn(operation: Any, rows: int) -> bool:
    kind, lookup = operation.type, meaning(operation.type).lookup
    by_number = lookup is not None and not (lookup.by_handle or lookup.by_coordinates)
    if not (by_number or meaning(kind).range_use is RangeUse.STRIDES):
        return meaning(kind).list_use is ListUse.GETS
    return _size(operation.inputs[0], 0) == rows and _value(operation.inputs[1]) is None


def _value(tensor: Any) -> np.ndarray | None:
    """A tensor's value, if it follows from constants and shapes."""
    import tensorflow as tf

    value = tf.get_static_value(tensor)
    return None if value is None else np.asarray(value)


def _size(tensor: Any, dim: int) -> int | None:
    shape = tensor.shape
    known = shape.rank is not None and -shape.rank <= dim < shape.rank
    return shape[dim] if known else None
