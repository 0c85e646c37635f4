"""Lengths that are neither fixed nor multiples of the batch: what takes the first 16 rows has not so many of 3."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.graph.layouts import unlike_for

from . import single
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


def filled_up_to(count_of_rows):
    return lambda p: tf.pad(p, [[0, tf.maximum(count(p), count_of_rows) - count(p)], [0, 0]]) ** 2


@pytest.mark.parametrize(
    ("length", "like", "unlike"),
    [
        (filled_up_to(2), (2, 3, 9000), 1),
        (lambda p: p[:8192] ** 2, (1, 2, 8192), 8193),
        (lambda p: p - tf.reduce_mean(p, 0), (1, 2, 9000), None),
    ],
    ids=["filled up to two", "the first 8192", "centred"],
)
def test_numbers_of_rows_that_a_plan_is_not_for_are_known(length, like, unlike):
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.sqrt(tf.reduce_mean(length(x @ w) ** 2))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    graph = capture(step, single.specs_of([batch(8, width=6)]), VariableNames()).graph
    assert [unlike_for(graph, rows) for rows in like] == [None] * len(like)
    assert unlike is None or unlike_for(graph, unlike) is not None


def test_a_step_for_a_large_batch_is_planned_for_so_many_rows():
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w)[:5500] ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    ran = check(step, [[batch(6000, width=6)]], (2000, 4000), w, batch_size=6000)
    assert not ran.warnings


@pytest.mark.parametrize("rows", [8, 15])
def test_a_queue_that_has_no_more_rows_than_the_step_can_take(rows):
    w, queue = tf.Variable(START, name="w"), tf.Variable(batch(20, 3, width=3), name="queue")

    def step(x):
        with tf.GradientTape() as tape:
            found = tf.tanh(x @ w)
            loss = tf.reduce_mean(tf.reduce_logsumexp(found @ tf.transpose(queue), 1) - found[:, 0] * found[::-1, 1])
        w.assign_sub(0.1 * tape.gradient(loss, w))
        queue.assign(tf.concat([found, queue[: -tf.shape(x)[0]]], 0))
        return loss

    ran = check(step, [[batch(rows, width=6)], [batch(rows, 1, width=6)]], (rows - 3, 0, 3), w, queue, batch_size=rows)
    assert not ran.warnings
