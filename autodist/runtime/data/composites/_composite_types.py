"""Types of ragged and sparse tensors."""

from __future__ import annotations

from typing import Any


def is_composite(leaf: Any) -> bool:
    """Whether it is a ragged or a sparse tensor with values."""
    import tensorflow as tf

    return isinstance(leaf, tf.RaggedTensor | tf.SparseTensor) and all(
        hasattr(part, "_numpy") for part in tf.nest.flatten(leaf, expand_composites=True)
    )


def is_composite_spec(spec: Any) -> bool:
    """Whether it describes a ragged or a sparse tensor."""
    import tensorflow as tf

    return isinstance(spec, tf.RaggedTensorSpec | tf.SparseTensorSpec)


def dense_specs(specs: Any) -> list[Any]:
    """The specs in a structure; for ragged and sparse tensors, those of the dense ones that they consist of."""
    import tensorflow as tf

    found: list[Any] = []
    for spec in tf.nest.flatten(specs):
        found.extend(tf.nest.flatten(spec, expand_composites=True) if is_composite_spec(spec) else [spec])
    return found


def form_of(leaf: Any) -> str:
    """A ragged or sparse tensor as a trace takes it, as text.

    How many rows a ragged one has is a size of one of its dense tensors; that of a sparse one is a value in them.
    """
    return repr(of_any_rows(leaf._type_spec))


def of_any_rows(spec: Any) -> Any:
    """The type with any number of rows, if that is a size of one of its dense tensors."""
    import tensorflow as tf

    if spec.shape.rank is None or not isinstance(spec, tf.RaggedTensorSpec):
        return spec
    return tf.RaggedTensorSpec([None, *spec.shape[1:]], spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
