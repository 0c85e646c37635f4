"""A batch without rows, or with fewer than there are replicas, trains as on one device."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from .programs import FEATURES, run_distributed, run_plain

X = np.random.default_rng(0).normal(size=(24, FEATURES)).astype("float32")
Y = X[:, :2].sum(1, keepdims=True)
SIZES = (6, 0, 1, 0, 5)


def mean_of_some(square):
    """Keras' losses are so: nothing of no rows."""
    return tf.math.divide_no_nan(tf.reduce_sum(square), tf.cast(tf.size(square), tf.float32))


LOSSES = {
    "mean": lambda square, w: tf.reduce_mean(square),
    "sum": lambda square, w: tf.reduce_sum(square),
    "mean of some": lambda square, w: mean_of_some(square) + 0.01 * tf.reduce_sum(w**2),
}


def stepping(loss_of):
    """A loop with Adam and a metric over batches of all sizes."""

    def program(scope):
        starts = np.cumsum([0, *SIZES])
        with scope():
            w, optimizer = tf.Variable(tf.ones([FEATURES, 1])), keras.optimizers.Adam(0.05)
            metric, total = keras.metrics.MeanSquaredError(), tf.Variable(0)

            @tf.function(reduce_retracing=True)
            def step(x, y):
                with tf.GradientTape() as tape:
                    loss = loss_of(tf.square(x @ w - y), w)
                optimizer.apply_gradients([(tape.gradient(loss, w), w)])
                metric.update_state(y, x @ w)
                total.assign_add(tf.shape(x)[0])
                return loss, x @ w, tf.shape(x)[0]

            found = [step(X[a : a + n], Y[a : a + n]) for a, n in zip(starts, SIZES, strict=False)]
        return found, metric.result(), total.numpy(), [v.numpy() for v in optimizer.variables], w.numpy()

    return program


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_on_empty_batches_return_what_one_device_does(loss):
    """A plain mean over no rows is no number, and the weights stay numbers: on one device, and so here."""
    expected, found = run_plain(stepping(LOSSES[loss])), run_distributed(stepping(LOSSES[loss]))
    for one, other in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=1e-5, atol=1e-6)
    assert np.ptp(found[-1]) > 1e-3
    assert np.isnan(found[0][1][0]) == (loss == "mean")


def filtered():
    """Batches that lose examples when they have been made."""
    keep = np.ones(24, bool)
    keep[6:12] = keep[13:18] = False
    batches = tf.data.Dataset.from_tensor_slices((X, Y, keep)).batch(6)
    return batches.map(lambda x, y, some: (tf.boolean_mask(x, some), tf.boolean_mask(y, some)))


def test_fit_with_empty_batches_ends_as_on_one_device():
    def program(scope):
        with scope():
            model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
            model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
            history = model.fit(filtered(), validation_data=filtered(), epochs=2, shuffle=False, verbose=0).history
        return history, model.get_weights()

    expected, found = run_plain(program), run_distributed(program)
    for one, other in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    assert found[0]["loss"][1] < found[0]["loss"][0]


def test_what_a_replica_without_examples_computes_counts_for_nothing():
    """Also where that is no number: the logarithm of the zeros that stand for an example."""

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([3]))

            @tf.function
            def step(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.math.log(x * w))
                w.assign_add(0.1 * tape.gradient(loss, w))
                return loss

            return [step(np.full([n, 3], 2.0, "float32")) for n in (1, 0, 1)], w.numpy()

    (expected, one), (found, two) = run_plain(program), run_distributed(program)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    assert np.isfinite(two).all()
    assert not np.allclose(two, 1.0)


@pytest.mark.parametrize("meet", [False, True])
def test_arguments_with_a_dim_of_size_0(meet):
    """Features that an experiment leaves out; where examples meet, replicas share the batch tensor by tensor."""

    def program(scope):
        with scope():
            w = tf.Variable(tf.ones([FEATURES, 1]))

            @tf.function
            def step(x, others, y):
                with tf.GradientTape() as tape:
                    found = tf.concat([x, tf.reduce_sum(others, 2)[:, :0]], 1) @ w
                    loss = tf.reduce_mean((found - y - (tf.reduce_mean(found) if meet else 0.0)) ** 2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            none = np.zeros([8, 3, 0], "float32")
            losses = [float(step(X[k : k + 8], none, Y[k : k + 8])) for k in range(0, 24, 8)]
            losses.append(float(step(X[:1], none[:1], Y[:1])))
        return losses, w.numpy()

    (expected, before), (found, after) = run_plain(program), run_distributed(program)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(after, before, rtol=1e-5)
    assert np.ptp(after) > 1e-3
