"""Refusals of ragged and sparse arguments, and the warning that replicas compute them whole."""

from __future__ import annotations

import logging
from typing import Any

from autodist.errors import UsageError

_LOG = logging.getLogger("autodist")
_TO_DENSE = {"RaggedTensor": "`x.to_tensor()`", "SparseTensor": "`tf.sparse.to_dense(x)`"}


def refuse_index_slices(leaf: Any, name: str) -> None:
    """Refuse a gradient of rows as an argument.

    Raises:
        UsageError: It is one.
    """
    import tensorflow as tf

    if isinstance(leaf, tf.IndexedSlices):
        raise UsageError(
            f"the step's {name} is an IndexedSlices, a batch is made of dense, ragged or sparse tensors",
            hint="make it dense: `tf.convert_to_tensor(x)`",
        )


def refuse_parts(kind: str, names: str) -> None:
    """Refuse a ragged or sparse argument of which each worker has a part.

    Args:
        kind: The class of the argument.
        names: What it and those that are parts are called.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        f"the step has a {kind} ({names}), and each worker has other examples; workers compute such batches whole",
        hint="give all workers the same batches: `ad.shard(dataset)`, with `by='batch'`, in a scope with "
        f"`batch='global'`; or make it dense in the input pipeline, by {_TO_DENSE.get(kind, 'a dense tensor')}",
    )


def warn_of_composite(kind: str, name: str) -> None:
    """Say that replicas compute steps with such an argument whole.

    Args:
        kind: The class of the argument.
        name: What it is called.
    """
    _LOG.warning(
        "%s is a %s: every replica computes such a batch whole, so more replicas do not make it faster. Made dense in "
        "the input pipeline, by `dataset.map` after `batch` (%s), the replicas share it",
        name, kind, _TO_DENSE.get(kind, "a dense tensor in its place"),
    )  # fmt: skip
