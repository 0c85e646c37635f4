"""Python code that wants to know how many rows a batch has, while a step is traced for batches of any number."""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from autodist.errors import CaptureError
from autodist.graph._lines import is_foreign, is_generated, line_of_caller, line_of_error
from autodist.graph._marks import replace_method

__all__ = ["noticing_row_counts", "refuse_fixed_rows"]

_REMEDY = (
    "the replicas of a step get parts of each batch, with other numbers of rows: write `tf.shape(x)[0]` for the number "
    "of rows, and -1 in its place in `tf.reshape`"
)
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextlib.contextmanager
def noticing_row_counts() -> Iterator[list[str]]:
    """Yield the growing list of the user's lines that ask a shape for dim 0 inside, where that is not known."""
    import tensorflow as tf

    found: list[str] = []

    def note() -> None:
        file = sys._getframe(2).f_code.co_filename
        if is_generated(file) or not is_foreign(file):
            line = line_of_caller()
            if line is not None and line not in found:
                found.append(line)

    def one(original: Any) -> Any:
        @functools.wraps(original)
        def getitem(shape: Any, key: Any) -> Any:
            value = original(shape, key)
            if value is None and key == 0:
                note()
            return value

        return getitem

    def each(original: Any) -> Any:
        @functools.wraps(original)
        def iterate(shape: Any) -> Any:
            if shape._dims and shape._dims[0] is None:
                note()
            return original(shape)

        return iterate

    with contextlib.ExitStack() as patches:
        replace_method(patches, tf.TensorShape, "__getitem__", one)
        replace_method(patches, tf.TensorShape, "__iter__", each)
        yield found


def refuse_fixed_rows(error: Exception, asked: list[str], trace: Callable[[], Any]) -> None:
    """Refuse a step that can only be traced for one number of rows.

    Args:
        error: That of tracing it for any number.
        asked: The lines that have asked for the number.
        trace: Traces it for the batch that is there.

    Raises:
        CaptureError: It can be traced for that one.
    """
    try:
        trace()
    except Exception:
        return  # the error is the user's, not ours
    where = (asked and asked[-1]) or line_of_error(error) or "an unknown line"
    what = (
        "asks in Python for the number of rows of its batch"
        if asked
        else "can be traced for this number of rows in a batch only, not for any"
    )
    raise CaptureError(f"the step {what}, at {where}: {_said(error)}", hint=_REMEDY) from error


def _said(error: Exception) -> str:
    """The last line of an error, without where it was raised and which arguments Keras lists."""
    text = _COLOURS.sub("", str(error)).partition("Arguments received by")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    kind = type(error).__name__
    return f"{kind}: {(lines[-1] if lines else '').removeprefix(f'{kind}: ')}"
