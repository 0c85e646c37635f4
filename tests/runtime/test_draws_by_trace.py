"""Random numbers that kernels count begin anew in each trace, so with each number of rows, as on one device."""

import keras
import numpy as np
import tensorflow as tf

from .programs import assert_same


def noisy(sizes, **options):
    """A program whose step draws in three ways, called with batches of these sizes."""

    def program(scope):
        keras.utils.set_random_seed(4)
        random = np.random.default_rng(0)
        with scope():
            w = tf.Variable(tf.ones((6, 2)))

            @tf.function(**options)
            def step(x):
                with tf.GradientTape() as tape:
                    noise = tf.random.normal(tf.shape(x), stddev=0.1)
                    y = tf.nn.dropout(x + noise, 0.4) @ w
                    y += tf.random.uniform((1, 2))
                    loss = tf.reduce_mean(y**2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            losses = [float(step(tf.constant(random.normal(size=(n, 6)).astype("float32")))) for n in sizes]
        return losses, w.numpy()

    return program


def test_each_number_of_rows_has_its_own_numbers():
    assert_same(noisy([10, 10, 6, 10, 6, 3]))


def test_one_trace_for_any_number_of_rows_goes_on():
    assert_same(noisy([10, 6, 10], input_signature=[tf.TensorSpec([None, 6])]))
