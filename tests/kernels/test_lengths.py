"""Lengths that are neither fixed nor multiples of the batch: what takes the first 16 rows has not so many of 3."""

import numpy as np
import pytest
import tensorflow as tf

from .test_replicate import batch, check

START = np.random.default_rng(5).normal(size=(6, 3)).astype(np.float32)


def count(p):
    return tf.shape(p)[0]


def quarters(p):
    """Groups of four rows, without the rest."""
    return tf.reduce_max(tf.reshape(p[: count(p) // 4 * 4], [-1, 1, 3]), 1)


LENGTHS = {
    "the first 16": lambda p: p[:16] ** 2,
    "the last 4": lambda p: p[-4:] ** 2,
    "behind the first 4": lambda p: tf.reduce_sum(p[4:] ** 2),
    "at most 16": lambda p: p[: tf.minimum(count(p), 16)],
    "largest 16": lambda p: tf.math.top_k(tf.reduce_sum(p, 1), tf.minimum(count(p), 16))[0],
    "filled up to 16": lambda p: tf.pad(p, [[0, tf.maximum(0, 16 - count(p))], [0, 0]]) ** 2,
    "rest of a division": lambda p: p[: count(p) % 4 + 1],
    "quarters": quarters,
    "in pairs": lambda p: p[: count(p) // 2 * 2] ** 2,
    "filled up to pairs": lambda p: tf.reshape(tf.pad(p, [[0, count(p) % 2], [0, 0]]), [-1, 2, 3])[:, 0] ** 2,
    "every second twice": lambda p: tf.repeat(p[::2], 2, 0) ** 2,
    "halves": lambda p: p[: count(p) // 2 + 1] * p[count(p) - count(p) // 2 - 1 :],
    "singular values": lambda p: tf.linalg.svd(p, compute_uv=False),
}


@pytest.mark.parametrize("sizes", [(2, 7), (12, 12), (0, 3)], ids=str)
def test_as_many_rows_as_there_are(sizes):
    weights = {name: tf.Variable(START, name=name.replace(" ", "_")) for name in LENGTHS}
    if sum(sizes) < 4:
        del weights["quarters"]  # of no row, one device has no mean

    def step(x):
        losses = []
        for name, w in weights.items():
            with tf.GradientTape() as tape:
                losses.append(tf.reduce_mean(LENGTHS[name](tf.tanh(x @ w))))
            w.assign_sub(0.1 * tape.gradient(losses[-1], w))
        return losses

    ran = check(step, [[batch(sum(sizes), width=6)]], sizes, *weights.values())
    assert not ran.warnings
    for name in weights.keys() - {"behind the first 4"}:
        assert np.abs(ran.variables[name.replace(" ", "_")] - START).max() > 1e-3, name
