"""The program's own variables by their handles, whatever graph or scope the caller is in."""

from __future__ import annotations

from typing import Any

import numpy as np

from autodist.runtime.data import sharing_tensor


def read_eager(handle: Any, dtype: Any) -> np.ndarray:
    """The value of a variable, in its own memory."""
    import tensorflow as tf

    with _eagerly():
        return np.asarray(tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)._numpy())


def assign_eager(handle: Any, dtype: Any, value: np.ndarray) -> None:
    """Have a variable hold a value, in the value's memory if it may be."""
    import tensorflow as tf

    with _eagerly():
        tf.raw_ops.AssignVariableOp(resource=handle, value=sharing_tensor(value, dtype), validate_shape=False)


def release_eager(handle: Any, dtype: Any) -> None:
    """Free the memory of a variable, which has no elements from now on."""
    refill_eager(handle, dtype, (0,))


def refill_eager(handle: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    """Have a variable hold zeros of a shape."""
    import tensorflow as tf

    with _eagerly():
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.zeros(shape, dtype), validate_shape=False)


def handle_dtype(handle: Any) -> Any:
    """Element type of a handle's variable."""
    import tensorflow as tf

    return tf.as_dtype(handle._handle_data.shape_and_type[0].dtype)


def _eagerly() -> Any:
    from tensorflow.python.eager import context

    return context.eager_mode()
