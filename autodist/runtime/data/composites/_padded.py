"""Ragged and sparse arguments as dense tensors with padding: of these, replicas get their rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.runtime.data.composites._base import Composite


@dataclass(frozen=True)
class Padded(Composite):
    """Its rows are lists; the dense tensors are these with padding, and their lengths, of which the step makes it.

    Attributes:
        width: How many values they have for a row: a power of two, because a step is traced for each width.
    """

    width: int

    is_padded = True

    @classmethod
    def taken_apart(cls, leaf: Any, first: int) -> tuple[Composite, list[np.ndarray]]:
        rows = cls._rows_of(leaf)
        lengths = np.asarray(rows[0].row_lengths()._numpy())
        width = 1 << max(int(lengths.max(initial=1)) - 1, 0).bit_length()
        dense = [part.to_tensor(shape=[None, width, *part.shape[2:]]) for part in rows]
        return cls(leaf._type_spec, first, width), [np.asarray(part._numpy()) for part in dense] + [lengths]

    def packed(self, tensors: Sequence[Any], *, any_rows: bool) -> Any:
        import tensorflow as tf

        *dense, lengths = tensors
        is_value = tf.sequence_mask(lengths, self.width)
        return self._made_of([tf.boolean_mask(tensor, is_value) for tensor in dense], lengths, is_value)

    @classmethod
    @abstractmethod
    def _rows_of(cls, leaf: Any) -> list[Any]:
        """Ragged tensors with what its rows have; the rows of all have the same lengths."""

    @abstractmethod
    def _made_of(self, values: list[Any], lengths: Any, is_value: Any) -> Any:
        """The argument, made of the values of the same, of the lengths of rows, and of where there are values."""


class PaddedRagged(Padded):
    """A ragged tensor whose rows are lists of numbers, or of arrays of one shape."""

    @classmethod
    def can_take(cls, leaf: Any) -> bool:
        import tensorflow as tf

        is_ragged = isinstance(leaf, tf.RaggedTensor)
        return is_ragged and bool(leaf.ragged_rank == 1 and leaf.flat_values.shape.is_fully_defined())

    def declared(self, *, any_rows: bool) -> tuple[tuple[int | None, ...], ...]:
        return (None, self.width, *self.spec.shape[2:]), (None,)

    @classmethod
    def _rows_of(cls, leaf: Any) -> list[Any]:
        return [leaf]

    def _made_of(self, values: list[Any], lengths: Any, is_value: Any) -> Any:
        import tensorflow as tf

        made = tf.RaggedTensor.from_row_lengths(*values, lengths, validate=False)
        made._set_shape(tf.TensorShape([None, *self.spec.shape[1:]]))  # rows may have one length
        return made


class PaddedSparse(Padded):
    """A sparse matrix whose values are in order: the columns of values, and the values."""

    @classmethod
    def can_take(cls, leaf: Any) -> bool:
        import tensorflow as tf

        if not isinstance(leaf, tf.SparseTensor) or leaf.shape.rank != 2 or not leaf.shape.is_fully_defined():
            return False
        below, right = np.diff(leaf.indices._numpy(), axis=0).T
        return bool(np.all((below > 0) | ((below == 0) & (right > 0))))

    def declared(self, *, any_rows: bool) -> tuple[tuple[int | None, ...], ...]:
        return (None, self.width), (None, self.width), (None,)

    @classmethod
    def _rows_of(cls, leaf: Any) -> list[Any]:
        import tensorflow as tf

        numbers, columns = tf.unstack(leaf.indices, axis=1)
        count = leaf.shape[0]
        return [tf.RaggedTensor.from_value_rowids(part, numbers, nrows=count) for part in (columns, leaf.values)]

    def _made_of(self, values: list[Any], lengths: Any, is_value: Any) -> Any:
        import tensorflow as tf

        rows = tf.shape(lengths, tf.int64)[0]
        numbers = tf.broadcast_to(tf.range(rows)[:, None], tf.shape(is_value, tf.int64))
        indices = tf.stack([tf.boolean_mask(numbers, is_value), values[0]], 1)
        sparse = tf.SparseTensor(indices, values[1], tf.stack([rows, self.spec.shape[1]]))
        sparse._dense_shape_default = tf.TensorShape([lengths.shape[0], self.spec.shape[1]])
        return sparse
