"""Ragged and sparse tensors among a call's arguments.

They consist of dense tensors whose sizes do not show how many rows of a batch there are. A ragged one whose rows are
lists goes to the replicas as a dense one with padding, and the lengths of its rows: of these they get their parts, and
the step makes it ragged again. So do matrices that are sparse, as the columns of values and the values. Anything else
comes whole to all replicas, and each computes all of it, which gives the result of one device.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import UsageError
from autodist.runtime.data._batch import WholeArray

_LOG = logging.getLogger("autodist")
_TO_DENSE = {"RaggedTensor": "`x.to_tensor()`", "SparseTensor": "`tf.sparse.to_dense(x)`"}


@dataclass(frozen=True)
class Composite:
    """A ragged or sparse argument.

    Attributes:
        spec: Its ``tf.TypeSpec``, with the number of rows that it has in this call.
        first: The position of its first dense tensor among the arrays.
        width: If these are dense tensors with padding, and the lengths of rows: how many values they have for a row.
    """

    spec: Any
    first: int
    width: int | None = None

    @property
    def kind(self) -> str:
        """The class of the argument."""
        return str(type(self.spec).__name__.removesuffix("Spec"))

    @property
    def num_tensors(self) -> int:
        """How many dense tensors stand for it."""
        return len(self.declared(any_rows=True))

    def declared(self, *, any_rows: bool) -> tuple[tuple[int | None, ...], ...]:
        """The shapes of its dense tensors as one device traces them.

        Args:
            any_rows: Whether that is for any number of rows.
        """
        import tensorflow as tf

        if self.width is not None and self.kind == "SparseTensor":
            return (None, self.width), (None, self.width), (None,)
        if self.width is not None:
            return (None, self.width, *self.spec.shape[2:]), (None,)
        spec = _of_any_rows(self.spec) if any_rows else self.spec
        return tuple(tuple(part.shape) for part in tf.nest.flatten(spec, expand_composites=True))

    def packed(self, tensors: list[Any], *, any_rows: bool) -> Any:
        """The argument, made of its dense tensors.

        Args:
            tensors: These.
            any_rows: Whether they stand for any number of rows.
        """
        import tensorflow as tf

        if self.width is not None:
            *dense, lengths = tensors
            return self._of_rows(dense, lengths)
        spec = _of_any_rows(self.spec) if any_rows else self.spec
        return tf.nest.pack_sequence_as(spec, tensors, expand_composites=True)

    def _of_rows(self, dense: list[Any], lengths: Any) -> Any:
        """The argument, made of dense tensors with padding."""
        import tensorflow as tf

        is_value = tf.sequence_mask(lengths, self.width)
        values = [tf.boolean_mask(tensor, is_value) for tensor in dense]
        if self.kind == "RaggedTensor":
            made = tf.RaggedTensor.from_row_lengths(*values, lengths, validate=False)
            made._set_shape(tf.TensorShape([None, *self.spec.shape[1:]]))  # rows may have one length
            return made
        rows = tf.shape(lengths, tf.int64)[0]
        numbers = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(is_value, tf.int64))
        indices = tf.stack([tf.boolean_mask(numbers, is_value), values[0]], 1)
        sparse = tf.SparseTensor(indices, values[1], tf.stack([rows, self.spec.shape[1]]))
        sparse._dense_shape_default = tf.TensorShape([lengths.shape[0], self.spec.shape[1]])
        return sparse


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


def can_be_padded(leaf: Any) -> bool:
    """Whether its rows are lists: of numbers, or of arrays of one shape, or of a matrix' values in order."""
    import tensorflow as tf

    if isinstance(leaf, tf.RaggedTensor):
        return bool(leaf.ragged_rank == 1 and leaf.flat_values.shape.is_fully_defined())
    if leaf.shape.rank != 2 or not leaf.shape.is_fully_defined():
        return False
    below, right = np.diff(leaf.indices._numpy(), axis=0).T
    return bool(np.all((below > 0) | ((below == 0) & (right > 0))))


def padded_arrays_of(leaf: Any) -> list[np.ndarray]:
    """Make dense arrays with padding of a tensor whose rows are lists, and the lengths of these.

    They are as wide as a power of two, because a step is traced for each width.
    """
    import tensorflow as tf

    rows = [leaf]
    if isinstance(leaf, tf.SparseTensor):
        numbers, columns = tf.unstack(leaf.indices, axis=1)
        rows = [
            tf.RaggedTensor.from_value_rowids(values, numbers, nrows=leaf.shape[0]) for values in (columns, leaf.values)
        ]
    lengths = np.asarray(rows[0].row_lengths()._numpy())
    width = 1 << max(int(lengths.max(initial=1)) - 1, 0).bit_length()
    dense = [part.to_tensor(shape=[None, width, *part.shape[2:]]) for part in rows]
    return [np.asarray(part._numpy()) for part in dense] + [lengths]


def arrays_of(leaf: Any) -> list[np.ndarray]:
    """The dense tensors that a ragged or sparse tensor consists of."""
    import tensorflow as tf

    return [np.asarray(part._numpy()).view(WholeArray) for part in tf.nest.flatten(leaf, expand_composites=True)]


def form_of(leaf: Any) -> str:
    """A ragged or sparse tensor as a trace takes it, as text.

    How many rows a ragged one has is a size of one of its dense tensors; that of a sparse one is a value in them.
    """
    import tensorflow as tf

    spec = leaf._type_spec
    return repr(_of_any_rows(spec) if isinstance(leaf, tf.RaggedTensor) else spec)


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


def _of_any_rows(spec: Any) -> Any:
    import tensorflow as tf

    if spec.shape.rank is None or not isinstance(spec, tf.RaggedTensorSpec):
        return spec
    return tf.RaggedTensorSpec([None, *spec.shape[1:]], spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
