"""Random numbers that kernels count begin anew in each trace, so with each number of rows, as on one device."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError

from .programs import assert_same, run_distributed


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


def test_a_trace_that_tensorflow_relaxes():
    """Two shapes have two traces, as on one device; others share the second one there."""
    assert_same(noisy([10, 6, 10, 6], reduce_retracing=True))
    with pytest.raises(CaptureError, match="has `reduce_retracing`") as raised:
        run_distributed(noisy([10, 6, 3], reduce_retracing=True))
    assert "`input_signature`" in raised.value.hint


class NoisyInTests(keras.Model):
    """A model that also draws while it is evaluated, and gives what it has drawn."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)

    def call(self, x):
        return self.dense(x)

    def test_step(self, data):
        x, y, _ = keras.utils.unpack_x_y_sample_weight(data)
        noise = tf.random.uniform(tf.shape(x))
        return {"loss": self.compute_loss(x, y, self(x + noise)), "noise": tf.reduce_sum(noise)}


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_evaluations_go_on_after_a_smaller_batch(steps_per_execution):
    def program(scope):
        keras.utils.set_random_seed(4)
        random = np.random.default_rng(0)
        x, y = random.normal(size=(10, 3)).astype("float32"), random.normal(size=(10, 2)).astype("float32")
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(4)
        with scope():
            model = NoisyInTests()
            model.compile("sgd", "mse", steps_per_execution=steps_per_execution)
            before = model.evaluate(data, verbose=0)
            history = model.fit(x, y, 4, 2, 0, validation_data=(x, y), shuffle=False)
            after = model.evaluate(data, verbose=0)
        return [*before, *after, *history.history["val_loss"], *history.history["val_noise"]], model.get_weights()[0]

    assert_same(program)


@pytest.mark.filterwarnings("ignore:.*ran out of data")
@pytest.mark.parametrize("is_known", [True, False])
def test_the_end_of_data_of_unknown_length(is_known, caplog):
    """Keras alone counts one more step there, and AutoDist says so; with the length, both are the same."""

    def program(scope):
        keras.utils.set_random_seed(4)
        x = np.random.default_rng(0).normal(size=(10, 3)).astype("float32")
        data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(4).ignore_errors()
        if is_known:
            data = data.apply(tf.data.experimental.assert_cardinality(3))
        with scope():
            model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
            model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1), "mse")
            model.fit(data, epochs=2, verbose=0, shuffle=False)
        return model.get_weights(), model.optimizer.iterations.numpy()

    with caplog.at_level(logging.WARNING, "autodist"):
        if is_known:
            assert_same(program)
        else:
            run_distributed(program)
    assert ("length of the training data is not known" in caplog.text) != is_known
