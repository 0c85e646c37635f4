"""Ragged and sparse arguments that come whole to all replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autodist.runtime.data._batch import WholeArray
from autodist.runtime.data.composites._base import Composite
from autodist.runtime.data.composites._composite_types import of_any_rows


class Whole(Composite):
    """The dense tensors are those that it consists of, such as the values and where its rows begin.

    Their sizes do not show how many rows of a batch there are: each replica computes all of it, which gives the result
    of one device.
    """

    is_padded = False

    @classmethod
    def can_take(cls, leaf: Any) -> bool:
        return True

    @classmethod
    def taken_apart(cls, leaf: Any, first: int) -> tuple[Composite, list[np.ndarray]]:
        import tensorflow as tf

        parts = tf.nest.flatten(leaf, expand_composites=True)
        return cls(leaf._type_spec, first), [np.asarray(part._numpy()).view(WholeArray) for part in parts]

    def declared(self, *, any_rows: bool) -> tuple[tuple[int | None, ...], ...]:
        import tensorflow as tf

        spec = of_any_rows(self.spec) if any_rows else self.spec
        return tuple(tuple(part.shape) for part in tf.nest.flatten(spec, expand_composites=True))

    def packed(self, tensors: Sequence[Any], *, any_rows: bool) -> Any:
        import tensorflow as tf

        spec = of_any_rows(self.spec) if any_rows else self.spec
        return tf.nest.pack_sequence_as(spec, list(tensors), expand_composites=True)
