"""Python code that asks for the number of rows of the batch while a step is traced for any number of rows."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

from autodist.errors import FixedRowsError
from autodist.graph._attribute_patches import Patches
from autodist.graph._identity import Identity
from autodist.graph.tracing._source_lines import (
    is_users,
    line_of_caller,
    line_of_error,
    line_of_user,
    said_in_tracing,
)

_REMEDY = (
    "the replicas of a step get parts of each batch, with other numbers of rows: write `tf.shape(x)[0]` for the number "
    "of rows, and -1 in its place in `tf.reshape`"
)
_SOME = 7919
"""A number of rows that no other dim has."""
_SHAPE = frozenset({"shape", "shape_v2"})
"""Functions of TensorFlow and Keras that give the shape of a tensor in the graph."""
_TAKES_ONE = frozenset({"elastic_transform"})
"""Functions of Keras that take a batch for one image if they do not know the number of its rows."""


class RowCounts:
    """Questions of the user's code while a step is traced.

    Args:
        rows: How many rows the batch has, if that is known.
        answers: Whether the code gets an answer, rather than None.

    Attributes:
        lines: The user's lines that have asked a shape for a size that depends on the number of rows.
        in_graph: How often the code has asked by ``tf.shape``, which knows the number when the step runs.
    """

    def __init__(self, rows: int | None, *, answers: bool = False) -> None:
        self.lines: list[str] = []
        self.in_graph = 0
        self._rows = _SOME if rows is None else rows
        self._answers = answers

    def of(self, shape: Any, value: Any, told: Any) -> Any:
        """The answer of a shape: TensorFlow's value, or the one that it would give if the number of rows were known."""
        import tensorflow as tf

        frame = sys._getframe(2)
        takes_one = frame.f_code.co_name in _TAKES_ONE
        if _open_dim(shape) is None or not (takes_one or is_users(frame)):
            return value
        known, line = told(self._known), line_of_user() if takes_one else line_of_caller()
        if line is None or isinstance(value, tf.TensorShape):
            return value  # a part of a shape will itself be asked
        if value == known:
            return value
        if line not in self.lines:
            self.lines.append(line)
        return known if self._answers else value

    def _known(self, given: Any) -> Any:
        import tensorflow as tf

        place = _open_dim(given)
        if place is None:
            return given
        return tf.TensorShape([*given._dims[:place], self._rows, *given._dims[place + 1 :]])


@contextlib.contextmanager
def noticing_row_counts(counts: RowCounts) -> Iterator[None]:
    """Note what the user's code asks for inside, and answer it."""
    import tensorflow as tf
    from tensorflow.python.ops import array_ops

    def asking(original: Any) -> Any:
        @functools.wraps(original)
        def ask(shape: Any, *args: Any) -> Any:
            return counts.of(shape, original(shape, *args), lambda known: original(*map(known, (shape, *args))))

        return ask

    def iterating(original: Any) -> Any:
        @functools.wraps(original)
        def iterate(shape: Any) -> Any:
            return iter(counts.of(shape, list(original(shape)), lambda known: list(original(known(shape)))))

        return iterate

    def counting(original: Any) -> Any:
        @functools.wraps(original)
        def shape_internal(*args: Any, **kwargs: Any) -> Any:
            counts.in_graph += is_users(sys._getframe(1), through=_SHAPE)
            return original(*args, **kwargs)

        return shape_internal

    with Patches() as patches:
        for name in ("__getitem__", "as_list", "num_elements", "__eq__"):
            patches.replace(tf.TensorShape, name, asking)
        patches.replace(tf.TensorShape, "__iter__", iterating)
        patches.replace(array_ops, "shape_internal", counting)
        yield


def _open_dim(shape: Any) -> int | None:
    """The dim of a shape that may be the batch's: the first, or the only one that is not known."""
    import tensorflow as tf

    dims = (isinstance(shape, tf.TensorShape) and shape._dims) or ()
    places = [place for place, size in enumerate(dims) if size is None]
    return places[0] if places[:1] == [0] or len(places) == 1 else None


def answers_matter(identity: Identity, asked: RowCounts, answered: Callable[[], tuple[Identity, RowCounts]]) -> bool:
    """Whether a step that gets None for the number of rows differs from the step that gets a number.

    A program that uses ``tf.shape`` where it gets None is prepared for that, and computes the same.

    Args:
        identity: Identity of the step as traced.
        asked: What it has asked for.
        answered: Traces the step with an answer; returns its identity then, and what it has asked for.
    """
    try:
        other, counts = answered()
    except Exception:
        return True
    return identity.step != other.step and asked.in_graph <= counts.in_graph


def refuse_fixed_rows(error: Exception, asked: list[str], trace: Callable[[], bool]) -> bool | None:
    """Refuse a step that can only be traced for one number of rows.

    Args:
        error: The error of tracing it for any number.
        asked: The lines that have asked for the number.
        trace: Traces it for the batch that is there; returns whether it takes a gradient.

    Returns:
        Whether it takes one; None if it can't be traced for that batch either.

    Raises:
        FixedRowsError: It does, and can be traced for that batch.
    """
    try:
        if not trace():
            return False
    except Exception:
        return None  # the error is the user's, not ours
    where = (asked and asked[-1]) or line_of_error(error) or "an unknown line"
    what = (
        "asks in Python for the number of rows of its batch"
        if asked
        else "can be traced for this number of rows in a batch only, not for any"
    )
    raise FixedRowsError(f"the step {what}, at {where}: {said_in_tracing(error)}", hint=_REMEDY) from error
