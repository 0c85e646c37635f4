"""Notes about a global batch, which come along with a worker's rows of a sharded dataset.

A note travels in the first tensor's place, next to it, so that it passes through what others do to the other tensors,
such as the example weights that Keras makes from labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodist.errors import UsageError

_FIRST, _NOTE = "0", "1: of autodist"


def with_note(element: Any, note: Any) -> Any:
    """An element of a dataset with a tensor next to its first part."""
    return _with_first(element, {_FIRST: _first(element), _NOTE: note})


def without_note(element: Any) -> tuple[Any, Any]:
    """An element as it was, and its note; None if it has none."""
    first = _first(element)
    if not isinstance(first, dict) or _NOTE not in first:
        return element, None
    return _with_first(element, first[_FIRST]), first[_NOTE]


def _first(element: Any) -> Any:
    return element[0] if isinstance(element, tuple) and element else element


def _with_first(element: Any, first: Any) -> Any:
    if not isinstance(element, tuple):
        return first
    changed = (first, *element[1:])
    return type(element)(*changed) if hasattr(element, "_fields") else changed


def check_rows(element: Any, split: Sequence[bool], rows: Sequence[int]) -> None:
    """Check that all batches of an element have had equally many rows.

    Args:
        element: This worker's part.
        split: Per tensor, whether it is a batch.
        rows: Rows of the batches.

    Raises:
        UsageError: They have not.
    """
    from tensorflow.python.util import nest

    if len(set(rows)) <= 1:
        return
    paths = [path for path, _ in nest.flatten_with_joined_string_paths(element)]
    batches = [path for path, is_split in zip(paths, split, strict=False) if is_split]
    listed = ", ".join(f"{path}: {count}" for path, count in zip(batches, rows, strict=True))
    raise UsageError(
        f"the dataset gives batches of different numbers of rows in one element: {listed}",
        hint="what has not the rows of the batch must have a fixed shape, `tf.ensure_shape` tells it; or keep it in a "
        "`tf.Variable` or a `tf.constant` that the step uses; if only the last batches of datasets in `zip` differ, "
        "`batch(..., drop_remainder=True)` leaves them out",
    )
