"""Dims of size 1 that are left out by their size: which of them is settled when a step is traced.

``tf.squeeze(logits)`` leaves the batch out as well where it has one row. A replica has one row where one device has
more, and must give a tensor of as many dims as that.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from autodist.graph.annotations import replace_method


@contextlib.contextmanager
def squeezing_known_dims() -> Iterator[None]:
    """Let the code that is traced inside leave out the dims that are known to have size 1, by their numbers."""
    from tensorflow.python.ops import gen_array_ops

    def wrap(original: Any) -> Any:
        @functools.wraps(original)
        def squeeze(input: Any, axis: Any = (), name: Any = None) -> Any:
            import tensorflow as tf

            shape = None if axis or tf.executing_eagerly() else tf.convert_to_tensor(input).shape
            if shape is None or shape.rank is None:
                return original(input, axis, name)
            found = [dim for dim, size in enumerate(shape._dims) if size == 1]
            return original(input, found, name) if found else tf.identity(input, name)

        return squeeze

    with contextlib.ExitStack() as patches:
        replace_method(patches, gen_array_ops, "squeeze", wrap)
        yield
