"""Gradients in loops over `tf.range`: their turns are traced one by one, and weights are those of one device."""

import contextlib
import itertools

import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError

from .programs import TWO

X = np.random.default_rng(0).normal(size=(31, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
SIZES = (8, 8, 7, 1, 7)


def several_updates(w, x, y):
    loss = tf.constant(0.0)
    for k in tf.range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)
        w.assign_sub(0.1 / tf.cast(k + 1, tf.float32) * tape.gradient(loss, w))
    return loss


def one_after_another(w, x, y):
    total = tf.constant(0.0)
    for first in tf.range(0, tf.shape(x)[0], 3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x[first : first + 3] @ w - y[first : first + 3]) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        total += loss
    return total


def added_up(w, x, y):
    found = tf.zeros_like(w)
    for first in tf.range(0, tf.shape(x)[0], 4):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((x[first : first + 4] @ w - y[first : first + 4]) ** 2)
        found += tape.gradient(loss, w)
    w.assign_sub(0.02 * found)
    return tf.norm(found)


def critic_first(w, x, y):
    for _ in tf.range(2):
        with tf.GradientTape() as tape:
            loss = tf.sqrt(tf.reduce_mean((x @ w - y) ** 2))
        w.assign(tf.clip_by_value(w - 0.1 * tape.gradient(loss, w), -0.5, 0.5))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.nn.softplus(x @ w))
    w.assign_sub(0.1 * tape.gradient(loss, w))
    return loss


def trained(update, scope):
    with scope as ad:
        w = tf.Variable(tf.fill((4, 1), 0.1))
        step = (tf.function if ad is None else ad.function)(lambda x, y: update(w, x, y))
        bounds = np.cumsum([0, *SIZES])
        losses = [float(step(X[a:b], Y[a:b])) for a, b in itertools.pairwise(bounds)]
        return np.array(losses), w.numpy()


@pytest.mark.parametrize("update", [several_updates, one_after_another, added_up, critic_first])
def test_weights_are_those_of_one_device(update):
    found, expected = trained(update, autodist.scope(**TWO)), trained(update, contextlib.nullcontext())
    assert np.abs(expected[1] - 0.1).max() > 0.01
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5)


def drawn(w, x, y):
    return several_updates(w, x + tf.random.normal(tf.shape(x), seed=1), y)


def ended_early(w, x, y):
    for _ in tf.range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w - y) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        if loss < 0.1:
            break
    return tf.reduce_sum(w)


@pytest.mark.parametrize("update", [drawn, ended_early])
def test_what_would_be_other_without_its_loop_is_refused(update):
    with pytest.raises(CaptureError, match="a gradient is taken inside control flow"):
        trained(update, autodist.scope(**TWO))
