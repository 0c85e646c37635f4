"""The shapes that sources of batches declare, and the dims that tracing for one device leaves open because of them.

Each array has a shape of its own, with which most steps are traced best. Where lengths differ between batches, as
those of padded sequences do, a trace for each length would take minutes; then these dims are open, as they are on one
device. Replicas that share batches need the lengths, and trace a step for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.runtime.data.composites import dense_specs

Dims: TypeAlias = tuple[tuple[int, ...], ...]
"""Per array, some of its dims."""


@dataclass(frozen=True)
class Declared:
    """The shapes that a source of batches declares.

    Attributes:
        shapes: Per tensor, its shape with None for dims of any size; None if not even the rank is known.
        at_once: Whether these dims are open from the first call on, as where a function has a signature: its Python
            code asks for them. Else they are when calls have had two sizes, since most data has only one.
        relaxes: Whether TensorFlow traces a call of a second shape for any shape, by `reduce_retracing`.
        rows_are_open: Whether some tensor may have any number of rows, where the shapes do not tell: those of the dense
            tensors that ragged ones consist of have any size even where there is one number of rows only.

    Example:
        >>> import tensorflow as tf
        >>> Declared.of((tf.TensorSpec([None, None]), tf.TensorSpec([8]))).shapes
        ((None, None), (8,))
    """

    shapes: tuple[tuple[int | None, ...] | None, ...] = ()
    at_once: bool = False
    relaxes: bool = False
    rows_are_open: bool | None = None

    @classmethod
    def of(cls, specs: Any, *, at_once: bool = False, relaxes: bool = False) -> Declared:
        """The shapes of the dense tensors that these specs describe, those of ragged and sparse ones among them."""
        import tensorflow as tf

        dense = [spec.shape for spec in dense_specs(specs) if isinstance(spec, tf.TensorSpec)]
        shapes = tuple(None if shape.rank is None else tuple(shape.as_list()) for shape in dense)
        kinds = tf.TensorSpec | tf.RaggedTensorSpec | tf.SparseTensorSpec
        given = [spec.shape for spec in tf.nest.flatten(specs) if isinstance(spec, kinds)]
        are_open = any(shape.rank is None or (shape.rank > 0 and shape[0] is None) for shape in given)
        return cls(shapes, at_once, relaxes, rows_are_open=are_open)

    @property
    def has_open_rows(self) -> bool:
        """Whether some tensor may have any number of rows."""
        if self.rows_are_open is not None:
            return self.rows_are_open
        return any(shape is None or shape[:1] == (None,) for shape in self.shapes)

    def open_dims(self, arrays: Sequence[Any], split: Sequence[bool]) -> Dims:
        """Per array, the dims that may have any size, but for the rows of what is split.

        Args:
            arrays: The arrays of a call. More than are declared may follow, such as the weights that Keras adds.
            split: Per array, whether dim 0 is the batch.
        """
        if len(arrays) < len(self.shapes):
            return ()
        shapes = (*self.shapes, *((0,) * array.ndim for array in arrays[len(self.shapes) :]))
        if any(shape is None or len(shape) != array.ndim for shape, array in zip(shapes, arrays, strict=True)):
            return ()
        return tuple(
            tuple(dim for dim, size in enumerate(shape or ()) if size is None and not (is_split and dim == 0))
            for shape, is_split in zip(shapes, split, strict=True)
        )


NOTHING_DECLARED = Declared()


class OpenDims:
    """The dims with which calls of a scope are traced as open; see :class:`Declared`."""

    def __init__(self) -> None:
        self._first: dict[Any, tuple[tuple[int, ...], ...]] = {}
        self._open: dict[Any, Dims] = {}
        self._closed: set[Any] = set()
        self._at_once: set[Any] = set()

    def of(self, kind: Any, declared: Declared, arrays: Sequence[Any], split: Sequence[bool]) -> Dims:
        """Per array of a call, the dims to trace as open; empty if there are none.

        Args:
            kind: What tells calls of this kind from others.
            declared: What their source declares.
            arrays: The arrays of the call.
            split: Per array, whether dim 0 is the batch.
        """
        allowed = () if kind in self._closed else declared.open_dims(arrays, split)
        if not any(allowed) or declared.at_once or kind in self._at_once:
            return allowed if any(allowed) else ()
        shapes = tuple(array.shape for array in arrays)
        first = self._first.setdefault(kind, shapes)
        before = self._open.get(kind, ((),) * len(arrays))
        found = tuple(
            tuple(dim for dim in dims if dim in known or shape[dim] != other[dim])
            for dims, known, shape, other in zip(allowed, before, shapes, first, strict=True)
        )
        self._open[kind] = found
        return found if any(found) else ()

    def open_at_once(self, kind: Any) -> None:
        """Trace calls of this kind with all dims open that may have any size, from now on."""
        self._at_once.add(kind)

    def close(self, kind: Any) -> None:
        """Trace calls of this kind for each shape from now on."""
        self._closed.add(kind)
