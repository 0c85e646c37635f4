"""Arguments of a step: which are tensors of the batch, and which are plain Python values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from autodist.errors import UsageError
from autodist.runtime._batch import LocalArray

__all__ = ["Arguments", "flatten"]


@dataclass(frozen=True)
class Arguments:
    """A call's arguments, taken apart.

    Attributes:
        arrays: The tensor arguments, as NumPy arrays, in flattened order.
        names: What to call each of them in an error.
        static: Everything else, by its position in the flattened arguments.
        structure: ``(args, kwargs)`` with anything in the leaves.
        is_local: Whether the arrays hold this worker's part of the global batch only.
    """

    arrays: tuple[Any, ...]
    names: tuple[str, ...]
    static: tuple[tuple[int, Any], ...]
    structure: Any
    is_local: bool

    @property
    def key(self) -> Any:
        """What two calls must share to be served by one trace: everything but the batch size and the values."""
        import tensorflow as tf

        signature = tuple((a.dtype.str, a.shape[1:], a.ndim) for a in self.arrays)
        static = tuple((position, _hashable(value)) for position, value in self.static)
        shape = tf.nest.map_structure(lambda _: 0, self.structure)
        return signature, static, repr(shape)

    def bind(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """`function` as a function of the tensors alone."""
        import tensorflow as tf

        static = dict(self.static)
        count = len(static) + len(self.arrays)
        structure = self.structure

        @tf.autograph.experimental.do_not_convert
        def rebuild(tensors: Any) -> Any:
            remaining = iter(tensors)
            flat = [static[k] if k in static else next(remaining) for k in range(count)]
            return tf.nest.pack_sequence_as(structure, flat)

        def step(*tensors: Any) -> Any:
            args, kwargs = rebuild(tensors)
            return function(*args, **kwargs)

        return step

    def specs(self) -> list[Any]:
        """``tf.TensorSpec`` of each array."""
        import tensorflow as tf

        return [tf.TensorSpec(a.shape, tf.string if a.dtype.kind == "O" else a.dtype) for a in self.arrays]


def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Take a call's arguments apart."""
    from tensorflow.python.util import nest

    structure = (args, kwargs)
    arrays: list[Any] = []
    names: list[str] = []
    static: list[tuple[int, Any]] = []
    leaves = nest.flatten_with_joined_string_paths(structure)
    is_local = False
    for position, (path, leaf) in enumerate(leaves):
        array = _as_array(leaf)
        if array is None:
            _refuse_ragged(leaf, _readable(path))
            static.append((position, leaf))
            continue
        is_local |= isinstance(leaf, LocalArray) and leaf.ndim > 0
        arrays.append(array)
        names.append(_readable(path))
    return Arguments(tuple(arrays), tuple(names), tuple(static), structure, is_local)


def _as_array(leaf: Any) -> Any:
    import tensorflow as tf

    if isinstance(leaf, np.ndarray | np.generic):
        return np.asarray(leaf)
    if isinstance(leaf, tf.Tensor) and hasattr(leaf, "_numpy"):
        return np.asarray(leaf._numpy())  # `numpy()` would copy
    return None


def _refuse_ragged(leaf: Any, name: str) -> None:
    import tensorflow as tf

    if isinstance(leaf, tf.RaggedTensor | tf.SparseTensor | tf.IndexedSlices):
        raise UsageError(
            f"the step's {name} is a {type(leaf).__name__}, a batch is made of dense tensors",
            hint="pad it in the input pipeline: `dataset.map(lambda x: x.to_tensor())`, `tf.sparse.to_dense`",
        )


def _readable(path: str) -> str:
    head, _, rest = path.partition("/")
    kind = "argument" if head == "0" else "keyword"
    return f"{kind} {rest}"


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return _Identity(value)
    # 1, 1.0 and True are equal, but not to a tracing.
    return type(value), value


class _Identity:
    """Stands for an object without a hash, and keeps it alive so that no other takes its place."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)
