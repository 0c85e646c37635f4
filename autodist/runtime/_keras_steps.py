"""A Keras model's steps as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["step_of"]


def step_of(model: Any, name: str) -> Callable[..., Any]:
    """One of a model's steps, ``train_step`` for one, as it is when it is called.

    Like Keras, it keeps AutoGraph away from it, which would fail on a model's own property ``metrics``.
    """
    import tensorflow as tf

    def step(data: Any) -> Any:
        return getattr(model, name)(data)

    step.__name__ = name
    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(step)
    return unconverted
