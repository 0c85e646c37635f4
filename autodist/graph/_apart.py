"""Functions of TensorFlow that keep examples apart, by operators that don't show it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from autodist.graph._marks import replace_method
from autodist.graph.operators import APART

__all__ = ["known_to_keep_apart", "with_attribute"]


@contextlib.contextmanager
def known_to_keep_apart() -> Iterator[None]:
    """What is traced inside knows of them: CTC's loss, which counts through the labels of the whole batch."""
    from tensorflow.python.ops import ctc_ops

    with contextlib.ExitStack() as patches:
        replace_method(patches, ctc_ops, "ctc_loss_dense", lambda original: with_attribute(original, APART))
        yield


def with_attribute(function: Any, attribute: str) -> Any:
    """A function all of whose operators have an attribute."""

    def call(*args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf
        from tensorflow.core.framework import attr_value_pb2

        with tf.compat.v1.get_default_graph()._attr_scope({attribute: attr_value_pb2.AttrValue(b=True)}):
            return function(*args, **kwargs)

    return call
