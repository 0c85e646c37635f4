"""Batch normalization over the batch of all replicas: Keras' layers, while a step is traced.

Each replica counts its elements per channel, and takes their mean and the sum of squared differences from it. These
three go to all replicas at once, and each of them merges all: with n elements altogether, and n_r, m_r and s_r of
replica r, the mean m is ``sum(n_r m_r) / n`` and the variance ``sum(s_r + n_r (m_r - m)^2) / n``. (A difference of mean
squares would need no more, but lose digits where the mean is large.)

One exchange is needed on the way back as well: an element's share in the gradients by mean and variance is
``(dmean + 2 (x - m) dvariance) / n``.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from autodist.graph.annotations import Join, joined, replace_method
from autodist.graph.batch import BY_REPLICA
from autodist.graph.tracing._apart import with_attribute

__all__ = ["synchronize_batch_norm"]


@contextlib.contextmanager
def synchronize_batch_norm(*, everywhere: bool) -> Iterator[None]:
    """Have Keras' ``BatchNormalization`` normalize by the batch of all replicas in what is traced inside.

    Args:
        everywhere: All such layers, else those with ``synchronized=True``.
    """
    from keras.layers import BatchNormalization

    def wrap(original: Any) -> Any:
        def _moments(layer: Any, inputs: Any, mask: Any) -> Any:
            if everywhere or layer.synchronized:
                return _synchronized_moments(inputs, layer._reduction_axes, mask)
            return _by_replica(original)(layer, inputs, mask)

        return _moments

    with contextlib.ExitStack() as patches:
        replace_method(patches, BatchNormalization, "_moments", wrap)
        keras2: Any = sys.modules.get("tf_keras")
        for name in () if keras2 is None else ("_calculate_mean_and_var", "_no_sync_calculate_mean_and_var"):
            owners = [c for c in keras2.layers.BatchNormalization.__mro__ if name in c.__dict__]
            for owner in owners[:1]:
                replace_method(patches, owner, name, _by_replica)
        yield


def _by_replica(original: Any) -> Any:
    """Statistics that are a replica's own: nobody is to be warned of what the documentation says."""
    return with_attribute(original, BY_REPLICA)


def _synchronized_moments(x: Any, axes: Sequence[int], mask: Any) -> tuple[Any, Any]:
    """Mean and variance by channel over the batch of all replicas, of elements that a mask has if there is one."""
    import tensorflow as tf

    counted = None if mask is None else tf.broadcast_to(tf.expand_dims(tf.cast(mask, "bool"), -1), tf.shape(x))
    by_channel = [1 if dim in axes else size for dim, size in enumerate(x.shape)]

    def chosen(values: Any) -> Any:
        return values if counted is None else tf.where(counted, values, tf.zeros_like(values))

    def total(values: Any) -> Any:
        return tf.reduce_sum(chosen(values), axes)

    @tf.custom_gradient
    def moments(values: Any) -> Any:
        own = joined(values, Join.OWN)
        count = joined(total(tf.ones_like(own)) if mask is not None else _count(own, axes), Join.OWN)
        own_mean = tf.math.divide_no_nan(total(own), count)
        spread = total(tf.math.squared_difference(own, tf.reshape(own_mean, by_channel)))
        row = tf.stack([count, own_mean, spread])[tf.newaxis]
        # Without a static size: there will be as many rows as replicas.
        rows = tf.raw_ops.PlaceholderWithDefault(input=row, shape=[None, *row.shape[1:]])
        everyone, mean, variance = _merged(joined(rows, Join.EACH))

        def backward(by_mean: Any, by_variance: Any) -> Any:
            both = joined(tf.stack([by_mean, by_variance]), Join.GRADIENT)
            by_mean, by_variance = (tf.reshape(part, by_channel) for part in tf.unstack(both))
            # What results is one replica's part, and will be multiplied with its weight among the gradients.
            part = tf.math.divide_no_nan(tf.reduce_sum(count), tf.reduce_sum(everyone))
            divisor = tf.reshape(everyone, by_channel) * joined(part, Join.SHARE)
            gradient = by_mean + 2.0 * (own - tf.reshape(mean, by_channel)) * by_variance
            return tf.math.divide_no_nan(chosen(gradient), divisor)

        return (mean, variance), backward

    mean, variance = moments(x)
    return mean, variance


def _count(x: Any, axes: Sequence[int]) -> Any:
    """How many elements each channel has."""
    import tensorflow as tf

    (channels,) = (size for dim, size in enumerate(x.shape) if dim not in axes)
    return tf.fill([channels], tf.cast(tf.size(x) // channels, x.dtype))


def _merged(parts: Any) -> tuple[Any, Any, Any]:
    """Count, mean and variance by channel, out of count, mean and sum of squared differences of each replica."""
    import tensorflow as tf

    counts, means, spreads = tf.unstack(parts, axis=1)
    count = tf.reduce_sum(counts, 0)
    mean = tf.math.divide_no_nan(tf.reduce_sum(counts * means, 0), count)
    spread = tf.reduce_sum(spreads + counts * tf.square(means - mean), 0)
    return count, mean, tf.math.divide_no_nan(spread, count)
