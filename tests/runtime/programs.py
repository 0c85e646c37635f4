"""Small training programs, and the comparison of one with itself undistributed."""

from __future__ import annotations

import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

FEATURES, WIDTH = 12, 160  # the first kernel of 160 x 160 is large enough for its eager copy to be released
TWO = {"spec": autodist.ResourceSpec.local(cpus=2)}


def data(batches=6, size=10, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(batches * size, WIDTH)).astype("float32")
    y = (x[:, :3].sum(axis=1, keepdims=True) + 0.1 * random.normal(size=(len(x), 1))).astype("float32")
    return x, y


def batches(count=6, size=10):
    x, y = data(count, size)
    return [(x[k : k + size], y[k : k + size]) for k in range(0, len(x), size)]


def make_model():
    return keras.Sequential(
        [keras.Input((WIDTH,)), keras.layers.Dense(WIDTH, activation="tanh"), keras.layers.Dense(1)]
    )


def adam(learning_rate=0.01):
    # Its default epsilon turns the round-off of gradients near zero into whole steps.
    return keras.optimizers.Adam(learning_rate, epsilon=1e-2)


def compiled_model(**options):
    model = make_model()
    model.compile(**{"optimizer": adam(), "loss": "mse", **options})
    return model


def make_step(model, optimizer):
    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return train_step


def everything(model, optimizer=None):
    optimizer = model.optimizer if optimizer is None else optimizer
    return [v.numpy() for v in (*model.variables, *(optimizer.variables if optimizer is not None else ()))]


def run_plain(program):
    keras.utils.set_random_seed(7)
    return program(contextlib.nullcontext)


def run_distributed(program, **options):
    keras.utils.set_random_seed(7)
    return program(lambda: autodist.scope(**{**TWO, **options}))


def assert_same(program, **options):
    """Run `program(scope)` plainly and distributed; what it returns must be equal, and something must have moved."""
    expected, found = run_plain(program), run_distributed(program, **options)
    flat_expected, flat_found = ([leaf for leaf in tf.nest.flatten(s) if leaf is not None] for s in (expected, found))
    assert len(flat_expected) == len(flat_found)
    for k, (one, other) in enumerate(zip(flat_expected, flat_found, strict=True)):
        np.testing.assert_allclose(np.asarray(other), np.asarray(one), rtol=2e-5, atol=2e-6, err_msg=f"result {k}")
    arrays = [np.asarray(array) for array in flat_found]
    assert any(np.ptp(array) > 0 for array in arrays if array.size > 1) or len({float(a.sum()) for a in arrays}) > 1
    return found
