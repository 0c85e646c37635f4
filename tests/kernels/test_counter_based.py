"""Draws by a counter are those of one device in steps that are replicated as they are."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import single
from .test_replicate import batch, check, trained

START = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)
NOISE = keras.random.SeedGenerator(7)


def dropped(value):
    """Twelve numbers for each example."""
    return keras.random.dropout(tf.tile(value, [1, 4]), 0.5, seed=NOISE)


def of_three(value):
    """Three numbers for each: the counter counts four."""
    return keras.random.dropout(value, 0.5, seed=NOISE)


def wide(value):
    return tf.cast(keras.random.normal(tf.shape(value), dtype="float64", seed=NOISE), tf.float32) * value


def of_images(value):
    images = tf.reshape(value, [-1, 1, 3, 1])
    return keras.random.dropout(tf.tile(images, [1, 5, 1, 2]), 0.3, noise_shape=(None, 5, 1, 2), seed=NOISE)


def generated(value):
    return tf.random.Generator.from_seed(3).normal(tf.shape(value)) * value


PROGRAMS = {f.__name__: f for f in (dropped, of_three, wide, of_images)}


def trained_by(draw, w, norm=None):
    def step(x):
        with tf.GradientTape() as tape:
            value = x @ w if norm is None else norm(x @ w, training=True)
            drawn = draw(tf.tanh(value))
            loss = tf.reduce_mean(tf.square(drawn - 0.1))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss, drawn

    return step


@pytest.mark.parametrize("sizes", [(5, 0, 4), (4, 5)], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_and_weights_are_those_of_one_device(name, sizes):
    w = tf.Variable(START, name="w")
    before = NOISE.state.numpy()
    ran = check(
        trained_by(PROGRAMS[name], w), [[batch(9, width=6)], [batch(9, 1, width=6)]], sizes, w, NOISE.state.value
    )
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-3
    NOISE.state.assign(before)


def test_no_exchange_and_no_word_is_needed():
    _, graph = single.rewritten(trained_by(dropped, tf.Variable(START)), [batch(9, width=6)], 2)
    assert not graph.exchanged
    assert not graph.notes


def test_dropout_beside_statistics_by_replica():
    """Equal parts of a batch have equal statistics: then what is computed of them is that of one device."""
    w, norm = tf.Variable(START, name="w"), keras.layers.BatchNormalization()
    norm.build([None, 3])
    x = np.concatenate([batch(4, width=6)] * 2)
    step = trained_by(of_three, w, norm)
    outputs, _ = trained(step, [[x]], w, NOISE.state.value)
    ran = single.run(step, [[x]], (4, 4))
    for expected, found in zip(outputs[0], ran.outputs[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert not np.array_equal(outputs[0][1][:4], outputs[0][1][4:])
    assert np.abs(ran.variables["w"] - START).max() > 1e-4
