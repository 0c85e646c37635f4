"""Arrays that are given to ``fit`` and have no rows that replicas could share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autodist.errors import UsageError

_BY_BATCH = (
    "if that is too large, make one batch at a time dense: a `keras.utils.PyDataset` whose `__getitem__` returns "
    "`x[start:stop].toarray()`"
)


def refuse_sparse_arrays(arguments: Mapping[str, Any]) -> None:
    """Refuse sparse and ragged arrays.

    Raises:
        UsageError: There is one.
    """
    import tensorflow as tf

    for name in ("x", "y", "sample_weight"):
        for leaf in tf.nest.flatten(arguments.get(name)):
            dense = None
            if type(leaf).__module__.startswith("scipy.sparse"):
                dense = f"`{name}.toarray()`; {_BY_BATCH}"
            elif isinstance(leaf, tf.RaggedTensor | tf.SparseTensor):
                dense = (
                    f"`{name}.to_tensor()`" if isinstance(leaf, tf.RaggedTensor) else f"`tf.sparse.to_dense({name})`"
                )
            if dense is not None:
                kind = f"{type(leaf).__module__.partition('.')[0]} {type(leaf).__name__}"
                raise UsageError(
                    f"`fit` was given a {kind} as `{name}`, on several replicas it takes dense arrays", hint=dense
                )
