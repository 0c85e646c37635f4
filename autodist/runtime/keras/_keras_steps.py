"""A Keras model's steps as functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any


def step_of(model: Any, name: str) -> Callable[..., Any]:
    """One of a model's steps, such as ``train_step``, looked up at each call.

    Like Keras, it keeps AutoGraph away from it, which would fail on a model's own property ``metrics``.
    """
    import tensorflow as tf

    def step(data: Any) -> Any:
        return getattr(model, name)(data)

    step.__name__ = name
    unconverted: Callable[..., Any] = tf.autograph.experimental.do_not_convert(step)
    return unconverted


def last_of_call(iterator: Iterator[Any], count: int, take: Callable[[Any], Any]) -> Any:
    """Take as many batches as Keras wants from one call, fewer where they end; return the result of the last.

    Raises:
        StopIteration: There is not a single batch left.
    """
    logs = take(next(iterator))
    for batch in itertools.islice(iterator, count - 1):
        logs = take(batch)
    return logs
