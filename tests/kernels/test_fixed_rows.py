"""Steps that are traced for one number of rows: replicas share them by layouts, and have the weights of one device."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import FixedRowsError, UsageError
from autodist.runtime.data import BatchCheck, Convention

from . import single
from .test_replicate import batch, check

ROWS = 8
SIZES = (3, 0, 4, 1)
START = np.random.default_rng(5).normal(size=(2, ROWS)).astype(np.float32)  # as wide as the batch is long, by chance


def columns(x, w):
    return tf.tanh(x @ w)


LOSSES = {
    "quotient": lambda x, w: tf.reduce_sum(columns(x, w) ** 2) / x.shape[0],
    "reshape": lambda x, w: tf.reduce_mean(tf.reshape(columns(x, w), [ROWS, 4, 2]) ** 2),
    "pairs of rows": lambda x, w: tf.reduce_mean(
        tf.reduce_sum(tf.reshape(columns(x, w), [ROWS // 2, 2, ROWS]), 1) ** 2
    ),
    "zeros": lambda x, w: tf.reduce_mean(tf.concat([columns(x, w), tf.zeros([x.shape[0], 2]) + x[:, :1]], 1) ** 2),
    "square": lambda x, w: tf.reduce_mean(tf.tanh(columns(x, w) @ tf.transpose(w) @ w) ** 2),
    "as many columns": lambda x, w: tf.reduce_mean(columns(x, w) * tf.linspace(0.5, 2.0, ROWS)),
    "as many rows": lambda x, w: tf.reduce_mean(tf.linspace(0.5, 2.0, ROWS)[:, None] * columns(x, w)),
    "adjacency": lambda x, w: tf.reduce_mean(tf.nn.relu((x @ tf.transpose(x)) @ columns(x, w)) ** 2),
    "labels": lambda x, w: tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(tf.eye(x.shape[0]), columns(x, w) @ tf.transpose(columns(x, w)))
    ),
    "each row": lambda x, w: tf.add_n([tf.reduce_sum(columns(x, w)[k] ** 2) * (k + 1) for k in range(x.shape[0])]),
    "picked": lambda x, w: columns(x, w)[3, 1] ** 2 + tf.reduce_sum(columns(x, w)[-1]),
    "noise": lambda x, w: tf.reduce_mean(columns(x + tf.random.stateless_normal([x.shape[0], 2], [1, 2]), w) ** 2),
}


def step_of(loss, w):
    def step(x):
        with tf.GradientTape() as tape:
            value = loss(x, w)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return [value]

    return step


@pytest.mark.parametrize("name", LOSSES)
def test_python_and_constants_have_the_number_of_the_whole_batch(name):
    w = tf.Variable(START, name="w")
    ran = check(step_of(LOSSES[name], w), [[batch(ROWS)], [batch(ROWS, 1)]], SIZES, w, fixed=True)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-3


@pytest.mark.parametrize("rows", [1, 2])
def test_so_few_rows_that_most_lengths_are_multiples_of_them(rows):
    w = tf.Variable(START, name="w")
    check(step_of(LOSSES["quotient"], w), [[batch(rows)], [batch(rows, 1)]], (1, 0, rows - 1), w, fixed=True)


def test_a_state_of_each_row():
    w, state = (
        tf.Variable(START.T @ START, name="w"),
        tf.Variable(tf.zeros([ROWS, ROWS]), name="state", trainable=False),
    )

    def step(x):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(x[:, :1] + state @ w)
            value = tf.reduce_mean((hidden - 1.0) ** 2)
        state.assign(hidden)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return [value]

    ran = check(step, [[batch(ROWS)], [batch(ROWS, 1)], [batch(ROWS, 2)]], SIZES, w, state, fixed=True)
    assert np.abs(ran.variables["state"]).max() > 0.1


def test_replicas_with_losses_of_their_own_are_refused():
    w = tf.Variable(START, name="w")
    with pytest.raises(FixedRowsError, match="batches of 8 rows only"):
        single.run(step_of(LOSSES["quotient"], w), [[batch(8)]], SIZES, fixed=True, gradient_reduction="mean")


def test_parts_of_another_number_of_rows_change_nothing_and_are_told():
    w, check_of_batches = tf.Variable(START, name="w"), BatchCheck(SimpleNamespace(steps_taken=4), Convention(), "a")
    told = "step 5 is for batches of 8 rows, and the parts of all"
    with pytest.raises(UsageError, match=told) as caught, check_of_batches.refusing(0):
        single.run(step_of(LOSSES["quotient"], w), [[batch(8)]], (4, 3), fixed=True)
    assert "`ad.shard`" in caught.value.hint
