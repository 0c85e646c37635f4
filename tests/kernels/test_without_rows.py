"""Operators that need rows, on replicas that have none of the batch, where examples meet."""

import numpy as np
import pytest
import tensorflow as tf

from .test_replicate import check

START = np.random.default_rng(1).normal(size=(3, 3, 2, 4)).astype(np.float32) / 5


def images(seed):
    return np.random.default_rng(seed).normal(size=(8, 6, 6, 2)).astype(np.float32)


def mirrored(x, w):
    return tf.nn.conv2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT"), w, 1, "VALID")


def edges(x, w):
    return tf.image.sobel_edges(tf.nn.conv2d(x, w, 1, "SAME"))


def pooled_with_places(x, w):
    """What it gives of the row that it is filled with must not count in either of its two outputs."""
    pooled, places = tf.nn.max_pool_with_argmax(tf.nn.conv2d(x, w, 1, "SAME") + 1.0, 2, 2, "SAME")
    return pooled + tf.cast(places, tf.float32) / 100.0


def frozen(x, w):
    """Nothing but the convolution takes its input, so oneDNN may make one operator of it and what is before."""
    return tf.nn.bias_add(tf.nn.conv2d(x, tf.constant(START), 1, "VALID"), tf.reduce_mean(w, [0, 1, 2]))


def along_the_width(x, w):
    """Rows that lie side by side in one picture."""
    return tf.nn.conv2d(tf.transpose(x, [1, 0, 2, 3]), w[:1], 1, "SAME")


def as_channels(x, w):
    """Rows that are summed up, with weights of as many channels."""
    return tf.nn.conv2d(tf.transpose(x, [3, 1, 2, 0]), w[:, :, :1] * tf.ones([tf.shape(x)[0], 1]), 1, "SAME")


def in_a_loop(x, w):
    """A convolution forward, one backward, and a pool, of what keeps its size and of what does not."""
    kept = tf.zeros([tf.shape(x)[0], 2, 2, 4])
    for _ in tf.range(2):
        x = tf.nn.conv2d(tf.nn.conv2d(x, w, 1, "SAME") * 0.5, tf.transpose(w, [0, 1, 3, 2]), 1, "SAME")
        kept += tf.nn.max_pool2d(tf.nn.conv2d(x, w, 1, "VALID"), 2, 2, "VALID")
    return kept


@pytest.mark.parametrize(
    "program", [frozen, mirrored, edges, pooled_with_places, along_the_width, as_channels, in_a_loop]
)
def test_what_needs_rows(program):
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_logsumexp(program(x, w))
        w.assign_sub(0.1 * tape.gradient(value, w))
        return [value]

    ran = check(step, [[images(0)], [images(1)]], (3, 0, 4, 1), w)
    assert np.abs(ran.variables["w"] - START).max() > 1e-3
