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


def one_more(iterator: Iterator[Any], batch: Any) -> Iterator[Any]:
    """Give a batch that was taken from an iterator again, by an iterator of the same type.

    Keras has one trace for all batches of a dataset, even if the last one is smaller, but one for each shape of other
    iterators' batches. Random numbers that no variable counts start over in each trace.
    """
    import tensorflow as tf

    if not isinstance(iterator, tf.data.Iterator):
        return iter([batch])
    from tensorflow.python.data.util import structure

    spec = iterator.element_spec
    components = structure.to_tensor_list(spec, batch)
    dataset = tf.raw_ops.TensorDataset(components=components, output_shapes=structure.get_flat_tensor_shapes(spec))
    repeated: Iterator[Any] = iter(tf.data.experimental.from_variant(dataset, spec))
    return repeated
