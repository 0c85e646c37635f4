"""The elements of datasets: which of their tensors are batches."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autodist.errors import UsageError
from autodist.runtime.data._dataset_structure import batched_sizes

_NO_ROWS = -1
_TO_DENSE = {"RaggedTensorSpec": "`x.to_tensor()`", "SparseTensorSpec": "`tf.sparse.to_dense(x)`"}


def which_are_batches(dataset: Any) -> tuple[bool, ...]:
    """Per tensor of the dataset's elements, whether it is a batch, of which replicas get rows.

    A batch has a dim 0 of any size, other tensors have a fixed one, or none. Where all sizes are fixed, as with
    `drop_remainder`, batches have the size that the dataset makes batches of, or else that of most tensors, or else
    that of the first.

    Raises:
        UsageError: None is, or there is something else than dense, ragged and sparse tensors.
    """
    import tensorflow as tf

    kinds = (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)
    _check_kinds(dataset.element_spec, kinds, "steps take dense, ragged and sparse tensors")
    specs = tf.nest.flatten(dataset.element_spec)
    sizes = [_fixed_rows(spec) for spec in specs]
    if None in sizes:
        return tuple(size is None for size in sizes)
    rows = Counter(size for size in sizes if size != _NO_ROWS).most_common()
    if not rows:
        raise UsageError(
            f"the dataset's elements are {dataset.element_spec}, they must be batches",
            hint="call `dataset.batch(size)` first",
        )
    made = batched_sizes(dataset)
    size = next((size for size, _ in rows if size in made), rows[0][0])
    return tuple(other == size for other in sizes)


def check_dense(spec: Any, by: str) -> None:
    """Check that the elements of a dataset have dense tensors only.

    Args:
        spec: That of the elements.
        by: How the dataset is to be sharded.

    Raises:
        UsageError: They have others.
    """
    import tensorflow as tf

    _check_kinds(spec, (tf.TensorSpec,), f"workers read their own parts of dense tensors only, by {by}")


def _check_kinds(spec: Any, kinds: tuple[type, ...], allowed: str) -> None:
    from tensorflow.python.util import nest

    for path, part in nest.flatten_with_joined_string_paths(spec):
        if not isinstance(part, kinds):
            dense = _TO_DENSE.get(type(part).__name__, "a dense tensor")
            raise UsageError(
                f"the dataset's elements have a {type(part).__name__.removesuffix('Spec')} at {path or 'their place'}, "
                f"{part}; {allowed}",
                hint=f"make it dense in each batch, by `dataset.map` after `batch`: {dense} in its place",
            )


def _fixed_rows(spec: Any) -> int | None:
    """How many rows each tensor of this kind has; None if that is open."""
    if spec.shape.rank == 0:
        return _NO_ROWS
    size = None if spec.shape.rank is None else spec.shape[0]
    return None if size is None else int(size)
