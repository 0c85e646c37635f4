"""What a loop or a branch draws, and nothing else in the step, is what one device draws."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import single
from .test_replicate import batch, check

START = np.random.default_rng(5).normal(size=(4, 4)).astype(np.float32)


def mapped(x, w):
    return tf.map_fn(lambda row: row * tf.random.stateless_uniform([4], [3, 4]), x) @ w


def turns(x, w):
    state = x
    for turn in tf.range(3):
        state = tf.tanh(state @ w) + tf.random.stateless_uniform(tf.shape(state), [1, turn])
    return state


def nested(x, w):
    """A draw in a branch inside of a loop."""
    state = x
    for turn in tf.range(3):
        if turn > 0:
            state = tf.tanh(state @ w) * tf.random.stateless_uniform(tf.shape(state), [1, turn])
    return state


def alike_for_all(x, w):
    state = x
    for turn in tf.range(3):
        state = tf.tanh(state @ w) + tf.random.stateless_normal([4], [1, turn])
    return state


def chosen(x, w):
    return tf.cond(
        tf.reduce_sum(w) > -1e9, lambda: x @ w + tf.random.stateless_uniform(tf.shape(x), [1, 2]), lambda: x @ w
    )


def step_of(program, w):
    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(program(x, w) ** 2)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return [value]

    return step


@pytest.mark.parametrize("program", [mapped, turns, nested, alike_for_all, chosen])
def test_weights_are_those_of_one_device(program):
    w = tf.Variable(START, name="w")
    ran = check(step_of(program, w), [[batch(8, width=4)], [batch(8, 1, width=4)]], (3, 0, 4, 1), w)
    assert not ran.warnings
    assert not ran.notes
    assert np.abs(ran.variables["w"] - START).max() > 1e-3


def test_each_replica_s_own_are_told():
    """Next to statistics by replica, and where each replica has a loss of its own."""
    w, norm = tf.Variable(START, name="w"), keras.layers.BatchNormalization()
    norm.build([None, 4])
    beside = single.run(step_of(lambda x, w: turns(norm(x, training=True), w), w), [[batch(8, width=4)]], (4, 4))
    own = single.run(step_of(turns, w), [[batch(8, width=4)]], (4, 4), gradient_reduction="mean")
    for ran in (beside, own):
        assert "each replica draws its own random numbers for its examples (Dropout, noise)" in ran.notes[-1]
