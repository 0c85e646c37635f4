"""The statistics of synchronized batch normalization, as numbers."""

import keras
import numpy as np
import tensorflow as tf

import autodist
from tests.runtime.programs import TWO


def test_variances_keep_their_digits_far_from_zero():
    """A difference of mean squares would lose all of them: 1e4 squared has 8 digits, float32 has 7.

    The mean itself is known to 1e-3 only, half a unit in its last place, so a variance of 1 can't be known better.
    """
    x = np.random.default_rng(0).normal(1e4, 1.0, size=(64, 3)).astype(np.float32)
    norm = keras.layers.BatchNormalization(momentum=0.0)
    ad = autodist.AutoDist(**TWO, batch_norm="synchronized")
    with ad.scope():
        norm.build([None, 3])
        scale = tf.Variable(1.0)

        @ad.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(scale * norm(x, training=True)))
            scale.assign_sub(0.1 * tape.gradient(loss, scale))
            return loss

        step(x)
        mean, variance = norm.moving_mean.numpy(), norm.moving_variance.numpy()
    assert scale.numpy() != 1.0
    exact = x.astype(np.float64)
    np.testing.assert_allclose(mean, exact.mean(0), rtol=1e-6)
    np.testing.assert_allclose(variance, exact.var(0), rtol=1e-3)
