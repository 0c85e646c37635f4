"""Arrays that TensorFlow takes as they are: it copies what does not begin where its kernels want memory to begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_ALIGNMENT_BYTES = 64


def aligned_empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array without values that a session can be fed, or a tensor made of, without a copy."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    memory = np.empty(size + _ALIGNMENT_BYTES, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT_BYTES
    array: np.ndarray = memory[begin : begin + size].view(kind).reshape(shape)
    return array


def aligned_copy(value: np.ndarray) -> np.ndarray:
    """A copy of an array that a session can be fed, or a tensor made of, without another copy."""
    if value.dtype.hasobject or not value.size:
        return value.copy()
    copy = aligned_empty(value.shape, value.dtype)
    np.copyto(copy, value)
    return copy


def sharing_tensor(value: np.ndarray, dtype: Any) -> Any:
    """An eager tensor in the memory of an array, which must not be changed any more."""
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    here = context.context()
    here.ensure_initialized()
    return ops.EagerTensor(value, here.device_name, dtype.as_datatype_enum)
