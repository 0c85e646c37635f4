"""Notes about a global batch, which come along with a worker's rows of a sharded dataset.

A note travels in the first tensor's place, next to it, so that it passes through what others do to the other tensors,
such as the example weights that Keras makes from labels.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NoReturn

from autodist.errors import UsageError

_LOG = logging.getLogger("autodist")
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


def refuse_rows(element: Any, split: Sequence[bool], rows: Sequence[int]) -> NoReturn:
    """Refuse an element of which this worker has a part, and whose batches have different numbers of rows.

    Args:
        element: The element.
        split: Per tensor, whether it is a batch.
        rows: Rows of the batches.

    Raises:
        UsageError: Always.
    """
    raise UsageError(_of_unlike_rows(element, split, rows), hint="`shard(..., by='batch')`, or batches of equal length")


def warn_of_rows(element: Any, split: Sequence[bool], rows: Sequence[int]) -> None:
    """Say that replicas compute such elements whole; the arguments are as for :func:`refuse_rows`."""
    _LOG.warning(
        "%s. Every replica computes such an element whole, so more replicas do not make it faster. If one of these "
        "tensors is not a part of the batch, give it a fixed shape by `tf.ensure_shape`; if only the last batches of "
        "datasets in `zip` differ, `batch(..., drop_remainder=True)` leaves them out",
        _of_unlike_rows(element, split, rows),
    )


def _of_unlike_rows(element: Any, split: Sequence[bool], rows: Sequence[int]) -> str:
    from tensorflow.python.util import nest

    paths = [path for path, _ in nest.flatten_with_joined_string_paths(element)]
    batches = [path for path, is_split in zip(paths, split, strict=False) if is_split]
    listed = ", ".join(f"{path}: {count}" for path, count in zip(batches, rows, strict=True))
    return f"the dataset gives batches of different numbers of rows in one element: {listed}"
