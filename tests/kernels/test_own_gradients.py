"""Gradients that a program defines itself: what is not linear in what comes from the loss is one device's."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture

from . import single
from .test_replicate import batch, check

SIZES = (2, 0, 7)
START = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)


def through(backward):
    """The identity, with a gradient of its own."""
    return tf.custom_gradient(lambda value: (tf.identity(value), backward))


@tf.custom_gradient
def clipped_in_a_branch(value):
    def backward(d):
        return tf.cond(tf.reduce_sum(d) > 9.0, lambda: d, lambda: tf.clip_by_value(d, -0.01, 0.01))

    return tf.identity(value), backward


def clipped_in_a_loop(value):
    for _ in tf.range(2):
        value = clipped(value) * 0.9
    return value


@tf.custom_gradient
def rectified(value):
    return tf.nn.relu(value), lambda d: tf.where(value > 0, d, tf.zeros_like(d))


clipped = through(lambda d: tf.clip_by_value(d, -0.01, 0.01))
BENT = {
    "clipped": clipped,
    "clipped by norm": through(lambda d: tf.clip_by_norm(d, 0.05)),
    "normalized": through(lambda d: d / (tf.math.reduce_std(d) + 1e-3)),
    "centred": through(lambda d: d - tf.reduce_mean(d, 0)),
    "squashed": through(lambda d: tf.tanh(50.0 * d)),
    "signs": through(lambda d: 0.1 * tf.sign(d)),
    "largest": through(lambda d: tf.where(tf.abs(d) >= tf.reduce_max(tf.abs(d)), d, 0.0)),
    "moved": through(lambda d: d + 0.01),
    "by number": through(lambda d: d / tf.cast(tf.shape(d)[0], tf.float32)),
    "in a branch": clipped_in_a_branch,
    "in a loop": clipped_in_a_loop,
    "in a function": tf.function(clipped),
}
LINEAR = {
    "reversed": through(lambda d: -0.5 * d),
    "swish": tf.nn.silu,
    "straight through": lambda v: v + tf.stop_gradient(tf.round(v) - v),
    "rectified": rectified,
    "recomputed": tf.recompute_grad(lambda v: tf.tanh(v) * v),
    "grouped": through(lambda d: d - tf.reduce_mean(d, 1, keepdims=True)),
}


def losses_of(functions, weights):
    def step(x):
        values = []
        for name, w in weights.items():
            with tf.GradientTape() as tape:
                values.append(tf.reduce_mean(tf.square(functions[name](tf.tanh(x @ w)) - x[:, :3])))
            w.assign_sub(0.1 * tape.gradient(values[-1], w))
        return values

    return step


@pytest.mark.parametrize("functions", [BENT, LINEAR], ids=["bent", "linear"])
def test_weights_are_those_of_one_device(functions):
    weights = {name: tf.Variable(START, name=name.replace(" ", "_")) for name in functions}
    ran = check(losses_of(functions, weights), [[batch(9, width=6)]], SIZES, *weights.values())
    assert not ran.warnings
    for name in weights:
        assert np.abs(ran.variables[name.replace(" ", "_")] - START).max() > 1e-5, name


@pytest.mark.parametrize("name", [*BENT, *LINEAR])
def test_only_what_is_not_linear_is_found(name):
    functions = BENT | LINEAR
    step = losses_of(functions, {name: tf.Variable(START)})
    graph = capture(step, [tf.TensorSpec([None, 6])], VariableNames()).graph
    assert bool(graph.analysis.bent) == (name in BENT)


def test_where_losses_stay_apart_it_is_said():
    step = losses_of(BENT, {"clipped": tf.Variable(START, name="w")})
    ran = single.run(step, [[batch(9, width=6)]], SIZES, gradient_reduction="mean")
    assert any("is not linear in what comes from the loss" in warning for warning in ran.warnings)


BEGINS = {
    "centred": lambda p: p - tf.reduce_mean(p, 0),
    "by softmax over the batch": lambda p: tf.nn.softmax(p, 0),
    "over the number of examples": lambda p: p / tf.cast(tf.shape(p)[0], p.dtype),
    "by example": lambda p: 0.1 * tf.nn.softmax(p),
}
"""What a program gives as `output_gradients=`, for a tensor with a row for each example."""


@pytest.mark.parametrize("name", BEGINS)
def test_gradients_that_begin_with_what_the_program_gives(name):
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape() as tape:
            p = tf.tanh(x @ w)
        w.assign_sub(0.1 * tape.gradient(p, w, output_gradients=BEGINS[name](p)))
        return p

    ran = check(step, [[batch(9, width=6)]], SIZES, w)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-3


def test_gradients_of_means_that_begin_with_means():
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape(persistent=True) as tape:
            mean = tf.reduce_mean(tf.tanh(x @ w), 0)
            loss = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(0.1 * tape.gradient(mean, w, output_gradients=mean - 0.3))
        w.assign_sub(0.1 * tape.gradient(loss, w, output_gradients=tf.reduce_mean(tf.abs(mean))))
        return loss

    assert not check(step, [[batch(9, width=6)]], SIZES, w).warnings
