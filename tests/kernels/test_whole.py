"""Values and losses of the whole batch: what replicas make of means of picked rows, and of rows that meet."""

import numpy as np
import pytest
import tensorflow as tf

from . import single
from .test_replicate import batch, check, check_losses


def masked(values, mask):
    return tf.reduce_mean(tf.boolean_mask(values, mask))


LOSSES = {
    "mean of picked rows": lambda x, e: masked(e, x[:, 0] > 0),
    "mean of picked elements": lambda x, e: masked(e, x > 0),
    "rows by number": lambda x, e: tf.reduce_mean(tf.gather(e, tf.where(x[:, 0] > 0))),
    "sum by size": lambda x, e: tf.reduce_sum(tf.boolean_mask(e, x > 0)) / tf.cast(
        tf.size(tf.boolean_mask(e, x > 0)), tf.float32
    ),
    "columns": lambda x, e: tf.reduce_sum(tf.reduce_mean(tf.boolean_mask(e, x[:, 0] > 0), 0)),
    "weighted": lambda x, e: 3.0 * masked(2.0 * e, x > 0) / 7.0,
    "by class": lambda x, e: tf.add_n([masked(e, x[:, 0] > 0), masked(e, x[:, 0] <= 0)]),
    "and a plain mean": lambda x, e: tf.reduce_mean(e) + 0.5 * masked(e, x > 0),
    "and a sum": lambda x, e: 0.5 * (tf.reduce_mean(e) + 0.1 * tf.reduce_sum(e)),
    "and a mean by hand": lambda x, e: masked(e, x > 0) + tf.reduce_sum(e) / tf.cast(tf.shape(e)[0], tf.float32),
    "stacked": lambda x, e: tf.reduce_mean(tf.stack([tf.reduce_mean(tf.abs(e)), masked(e, x > 0)])),
    "half a sum of squares": lambda x, e: tf.nn.l2_loss(e),
    "picked by few": lambda x, e: masked(e, x[:, 0] > 1.2),
    "scaled by a maximum of data": lambda x, e: tf.reduce_mean(e / tf.reduce_max(tf.abs(x))),
}  # fmt: skip


@pytest.mark.parametrize("sizes", [pytest.param((9, 7), marks=pytest.mark.slow), (7, 0, 9)])
def test_losses_over_picked_rows_have_the_gradients_of_one_device(sizes):
    def regularized(loss):
        return lambda w, x: loss(x, tf.square(x @ w - 1.0)) + 0.01 * tf.reduce_sum(tf.square(w))

    losses = {name: regularized(loss) for name, loss in LOSSES.items()}
    check_losses(losses, [[1.0, 0.3], [2.0, -0.5]], 0.1, sizes, moved=1e-3)


def test_where_nothing_is_picked_it_is_as_on_one_device():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = masked(tf.square(x @ w), x[:, 0] > 1e6)
        gradient = tape.gradient(value, w)
        w.assign_sub(tf.where(tf.math.is_finite(gradient), gradient, 1.0))
        return value

    ran = single.run(step, [[batch(6)]], (4, 2))
    assert np.isnan(ran.outputs[0][0])


def test_values_of_rows_that_meet_are_those_of_one_device():
    w = tf.Variable([[1.0, 0.5], [2.0, -1.0]], name="w")
    largest = tf.Variable(0.0, name="largest")

    def step(x):
        with tf.GradientTape() as tape:
            p = x @ w
            value = tf.reduce_mean(tf.square(p - 1.0))
        w.assign_sub(0.1 * tape.gradient(value, w))
        largest.assign(tf.maximum(largest, tf.reduce_max(tf.abs(p))))
        a, b = x - tf.reduce_mean(x, 0), p - tf.reduce_mean(p, 0)
        correlation = tf.reduce_sum(a * b) / tf.sqrt(tf.reduce_sum(a * a) * tf.reduce_sum(b * b))
        ranks = tf.argsort(tf.argsort(p[:, 0]))
        return {
            "correlation": correlation,
            "median": tf.sort(p[:, 0])[tf.shape(p)[0] // 2],
            "pairs": tf.matmul(p, x, transpose_b=True),
            "cumulated": tf.cumsum(p, 0),
            "behind each other": tf.concat([p, x], 0),
            "first": p[0],
            "where": tf.argmax(p, 0),
            "ranks": ranks,
            "numbers": tf.range(tf.shape(p)[0]),
            "any": tf.reduce_any(p > 2.0),
            "differences": tf.reduce_max(tf.abs(p[1:] - p[:-1])),
            "loss of pairs": tf.reduce_mean(tf.nn.softmax(tf.matmul(p, p, transpose_b=True), 0)),
        }

    for sizes in ((9, 7), (7, 0, 9)):
        ran = check(step, [[batch(16)], [batch(16, 1)]], sizes, w, largest)
        assert not ran.warnings


def test_whole_numbers_made_of_fractions():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x, i):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        count = tf.shape(x)[0]
        return {
            "mean": tf.reduce_mean(i),
            "of columns": tf.reduce_mean(tf.stack([i, 3 * i], 1), 0),
            "mean as a number": tf.cast(100.0 * loss, tf.int32),
            "sum as a number": tf.cast(tf.reduce_sum(x), tf.int64),
            "half": tf.cast(0.5 * tf.cast(count, tf.float32), tf.int32),
            "any": tf.cast(tf.reduce_sum(i), tf.bool),
        }

    arrays = [[batch(11, k), np.arange(11) + k] for k in range(2)]
    assert not check(step, arrays, (3, 0, 7, 1), w).warnings


def test_values_that_only_replicas_have_keep_their_scale():
    """As a metric of a loss does, that adds up the loss times the number of examples."""
    w = tf.Variable([[1.0, 0.5], [2.0, -1.0]], name="w")
    v = tf.Variable([[1.0], [-2.0]], name="v")

    def mean_of(x):
        hidden = x @ w
        return tf.reduce_mean(tf.square((hidden - tf.reduce_mean(hidden, 0)) @ v))

    def step(x):
        with tf.GradientTape() as tape:
            value = mean_of(x)
        v.assign_sub(0.01 * tape.gradient(value, v))
        count = tf.cast(tf.shape(x)[0], tf.float32)
        hidden = tf.tanh(x @ w)
        total = tf.reduce_sum(tf.square((hidden - tf.reverse(hidden, [0])) @ w))
        half = tf.nn.l2_loss((hidden - tf.reverse(hidden, [0])) @ w)
        return {"half": half, "mean": value * count / 16.0, "root": tf.sqrt(value), "sum": 2.0 * total / 5.0}

    x = batch(16)
    assert not check(step, [[x]], (9, 7), w, v).warnings
    # Where the caller has each replica compute its own loss, the values are of its own examples.
    ran = single.run(step, [[x]], (9, 7), gradient_reduction="mean")
    parts = [x[:9], x[9:]]
    mean = sum(len(part) / 16 * mean_of(tf.constant(part)).numpy() for part in parts)
    hidden = [tf.tanh(part @ w) for part in parts]
    total = sum(tf.reduce_sum(tf.square((h - tf.reverse(h, [0])) @ w)).numpy() for h in hidden)
    np.testing.assert_allclose(ran.outputs[0], [total / 2.0, mean, np.sqrt(mean), 0.4 * total], rtol=1e-5)
    told = [text for text in ran.warnings if "takes several examples together" in text]
    assert {text.partition("its value will be ")[2] for text in told} == {
        "averaged over the replicas",
        "added over the replicas",
    }
    assert all("test_whole.py:" in text for text in told)


def test_what_has_no_output_is_done_by_each_replica(capfd):
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        tf.print("rows", tf.shape(x)[0], "first", x[0, 0] * 0.0)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(0.1 * tape.gradient(value, w))
        return value

    check(step, [[batch(6)]], (4, 2), w)
    told = capfd.readouterr().err
    assert {"rows 4 first 0", "rows 2 first 0"} <= {line.replace("-0", "0") for line in told.splitlines()}


def test_a_loss_in_which_rows_meet_is_named_with_its_line_once_where_replicas_differ():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(sum(tf.square(x @ w - tf.roll(x @ w, k, 0)) for k in range(1, 3)))
        w.assign_sub(0.1 * tape.gradient(value, w))
        return value

    assert not check(step, [[batch(8)]], (4, 4), w).warnings
    ran = single.run(step, [[batch(8)]], (4, 4), gradient_reduction="mean")
    (warning,) = ran.warnings
    assert "(Roll) at" in warning
    assert "test_whole.py:" in warning
    np.testing.assert_allclose(ran.outputs[0][0], tf.function(step)(tf.constant(batch(8))), rtol=1e-5)
