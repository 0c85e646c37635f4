"""Losses in which the examples of a batch meet: weights are those of one device, however the batch is split."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.graph.layouts import exchanged_in, plan_batch
from tests.certify.drawn.loss import MIXED, REDUCED

from . import single
from .test_replicate import batch, check, trained

SIZES = (3, 4, 1)
START = np.random.default_rng(5).normal(size=(2, 3)).astype(np.float32)


def squares(p, x):
    return tf.square(p - x[:, :1])


def contrastive(p, x):
    scores = tf.matmul(p, tf.tanh(p), transpose_b=True)
    labels = tf.range(tf.shape(scores)[0])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))


def simclr(p, x):
    z = tf.math.l2_normalize(tf.concat([p, tf.sin(p)], 0), axis=1)
    count = tf.shape(p)[0]
    scores = tf.matmul(z, z, transpose_b=True) / 0.5 - 1e9 * tf.eye(2 * count)
    labels = tf.concat([tf.range(count, 2 * count), tf.range(count)], 0)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))


def pairs(p, x):
    difference = p[:, None, 0] - p[None, :, 0]
    order = tf.sign(x[:, None, 0] - x[None, :, 0])
    return tf.reduce_mean(tf.nn.softplus(-difference * order))


def distances(p, x):
    apart = tf.reduce_sum(tf.square(p[:, None] - p[None]), -1)
    same = tf.cast(tf.sign(x[:, None, 0]) == tf.sign(x[None, :, 0]), tf.float32)
    return tf.reduce_mean(same * apart + (1 - same) * tf.square(tf.nn.relu(1.0 - tf.sqrt(apart + 1e-3))))


def hardest(p, x):
    apart = tf.reduce_sum(tf.square(p[:, None] - p[None]), -1)
    same = tf.sign(x[:, None, 0]) == tf.sign(x[None, :, 0])
    far = tf.reduce_max(tf.where(same, apart, 0.0), 1)
    near = tf.reduce_min(tf.where(same, 1e6, apart), 1)
    return tf.reduce_mean(tf.nn.relu(far - near + 0.5))


def correlation(p, x):
    a, b = x[:, :1] - tf.reduce_mean(x[:, :1], 0), p - tf.reduce_mean(p, 0)
    up = tf.reduce_sum(a * b, 0)
    return 1 - tf.reduce_mean(up / tf.sqrt(tf.reduce_sum(a * a, 0) * tf.reduce_sum(b * b, 0) + 1e-6))


def twins(p, x):
    def normal(z):
        mean, variance = tf.nn.moments(z, 0)
        return (z - mean) / tf.sqrt(variance + 1e-3)

    cross = tf.matmul(normal(p), normal(tf.sin(p)), transpose_a=True) / tf.cast(tf.shape(p)[0], tf.float32)
    return tf.reduce_sum(tf.square(cross - tf.eye(3)))


def dice(p, x):
    s, t = tf.sigmoid(p), tf.cast(x[:, :1] > 0, tf.float32)
    return 1 - (2 * tf.reduce_sum(s * t) + 1) / (tf.reduce_sum(s) + tf.reduce_sum(t) + 1)


def halves(p, x):
    top = tf.math.top_k(tf.reduce_mean(squares(p, x), 1), tf.shape(p)[0] // 2).values
    return tf.reduce_mean(top)


def listwise(p, x):
    return -tf.reduce_sum(tf.nn.softmax(x[:, 0], 0) * tf.nn.log_softmax(p[:, 0], 0))


def masked_pairs(p, x):
    keep = tf.where(x[:, 0] > 0)[:, 0]
    picked = tf.gather(p, keep)
    return tf.reduce_mean(tf.square(picked[:, None] - picked[None])) + tf.reduce_mean(squares(p, x))


def first_and_decay(p, x):
    return tf.reduce_mean(squares(p, x)) + tf.square(p[0, 0]) + 0.1 * tf.reduce_sum(tf.square(p[-1]))


def some_columns(p, x):
    """Of slices of columns the gradient needs no other rows."""
    mean, scale = tf.ensure_shape(p, [None, 3])[:, :2], tf.exp(p[:, 2])
    return contrastive(mean * scale[:, None], x)


LOSSES = {
    "some columns": some_columns,
    "contrastive": contrastive,
    "simclr": simclr,
    "pairs": pairs,
    "distances": distances,
    "hardest": hardest,
    "correlation": correlation,
    "twins": twins,
    "dice": dice,
    "halves": halves,
    "listwise": listwise,
    "masked pairs": masked_pairs,
    "first": first_and_decay,
    "root": lambda p, x: tf.sqrt(tf.reduce_mean(squares(p, x))),
    "norm": lambda p, x: tf.norm(p - x[:, :1]),
    "log of sum": lambda p, x: tf.reduce_logsumexp(tf.reduce_sum(squares(p, x), 1)),
    "variance": lambda p, x: tf.reduce_mean(squares(p, x)) + tf.math.reduce_variance(p),
    "centred": lambda p, x: tf.reduce_mean(tf.square(p - tf.reduce_mean(p, 0) - x[:, :1])),
    "rolled": lambda p, x: tf.reduce_mean(tf.square(tf.roll(x[:, :1], 1, 0) - p)),
    "reversed": lambda p, x: tf.reduce_mean(tf.square(tf.reverse(p, [0]) - x[:, :1])),
    "sorted": lambda p, x: tf.reduce_mean(tf.square(tf.sort(x[:, :1], 0) - tf.sort(p, 0))),
    "cumulative": lambda p, x: tf.reduce_mean(tf.square(tf.cumsum(p - x[:, :1], 0))),
    "largest": lambda p, x: tf.reduce_max(squares(p, x)),
    "softmax": lambda p, x: tf.reduce_sum(tf.nn.softmax(p[:, 0], axis=0) * x[:, 0]),
    "gram": lambda p, x: tf.reduce_mean(tf.square(tf.matmul(p, p, transpose_a=True) / 8 - tf.eye(3))),
    "sums side by side": lambda p, x: tf.reduce_sum(
        tf.sin(tf.concat([tf.matmul(p, f(p), transpose_a=True) / 8 for f in (tf.sin, tf.cos, tf.square, tf.exp)], 1))
    ),
    "columns": lambda p, x: tf.reduce_mean(tf.square(tf.linalg.l2_normalize(p, axis=0) - x[:, :1])),
}  # fmt: skip


PICKED = {
    "half": lambda n: tf.range(n // 2),
    "every second": lambda n: tf.range(0, n, 2),
    "but the first": lambda n: tf.range(1, n),
    "backwards": lambda n: tf.range(n - 1, -1, -1),
    "at most": lambda n: tf.range(tf.minimum(n, 5)),
    "but three": lambda n: tf.range(n - 3),
}
"""Numbers of rows of the whole batch."""


def step_of(losses, weights, rate=0.1):
    def step(x):
        values = []
        for name, w in weights.items():
            with tf.GradientTape() as tape:
                value = losses[name](tf.tanh(x @ w), x)
            w.assign_sub(rate * tape.gradient(value, w))
            values.append(value)
        return values

    return step


@pytest.mark.parametrize("name", LOSSES)
def test_losses_in_which_examples_meet(name):
    w = tf.Variable(START, name="w")
    ran = check(step_of(LOSSES, {name: w}), [[batch(8)], [batch(8, 1)]], SIZES, w)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-3


@pytest.mark.parametrize("numbers", PICKED)
def test_rows_picked_by_numbers_made_of_how_many_there_are(numbers):
    losses = {"w": lambda p, x: tf.reduce_mean(tf.square(tf.gather(p, PICKED[numbers](tf.shape(p)[0])) - 0.3))}
    w = tf.Variable(START, name="w")
    check(step_of(losses, {"w": w}), [[batch(8)]], (3, 5), w)


def test_what_is_exchanged_is_named():
    """Of in-batch negatives the one factor is gathered, and the gradient by it added up, each replica's rows for it."""
    w = tf.Variable(START, name="w")
    step = step_of({"w": contrastive}, {"w": w})
    graph = capture(step, single.specs_of([batch(8)]), VariableNames()).graph.with_batch_size(8)
    gathered, added = (one for one in exchanged_in(graph, plan_batch(graph)) if one.size_bytes >= 8 * 3 * 4)
    assert (gathered.op, gathered.how, gathered.size_bytes) == ("Tanh", "gathered", 8 * 3 * 4)
    assert (added.op, added.how) == ("MatMul", "added up by rows")
    assert (gathered.sent_bytes(4), added.sent_bytes(4)) == (72.0, 72.0)


@pytest.mark.slow
@pytest.mark.parametrize("mixed", MIXED)
@pytest.mark.parametrize("reduced", REDUCED)
def test_whatever_is_reduced_of_mixed_rows(reduced, mixed):
    losses = {"w": lambda p, x: REDUCED[reduced](tf.square(x[:, :1] - MIXED[mixed](p)))}
    w = tf.Variable(START[:, :1], name="w")
    ran = check(step_of(losses, {"w": w}), [[batch(8)], [batch(8, 1)]], (3, 0, 4, 1), w)
    assert not ran.warnings


@pytest.mark.parametrize("rows", ["fixed", "masked", "unique"])
def test_gradients_of_rows_that_all_workers_have_count_once(rows):
    """Of rows of a table that are as many as data say, or as the program says, whatever the batch."""
    table, w = tf.Variable(START.repeat(3, 0), name="table"), tf.Variable(START, name="w")
    ids = {
        "fixed": lambda i: tf.range(4),
        "masked": lambda i: tf.boolean_mask(i, i > 1),
        "unique": lambda i: tf.unique(i).y,
    }[rows]

    def step(x, i):
        with tf.GradientTape() as tape:
            p = x @ w
            taken = tf.nn.embedding_lookup(table, ids(i))
            value = contrastive(p, x) + tf.reduce_mean(tf.square(tf.matmul(p, taken, transpose_b=True)))
        by_w, by_rows = tape.gradient(value, [w, table])
        w.assign_sub(0.1 * by_w)
        table.scatter_sub(tf.IndexedSlices(0.1 * by_rows.values, by_rows.indices))
        return value

    arrays = [[batch(8, k), np.random.default_rng(k).integers(6, size=8).astype(np.int32)] for k in range(2)]
    ran = check(step, arrays, (0, 5, 3), w, table)
    assert not ran.warnings
    assert np.abs(ran.variables["table"] - table.numpy()).max() > 1e-3


def test_strings_of_each_example_and_means_of_whole_numbers_are_returned():
    w = tf.Variable(START, name="w")

    def step(x, i):
        with tf.GradientTape() as tape:
            value = contrastive(x @ w, x)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return value, tf.strings.as_string(i), tf.reduce_mean(i)

    arrays = [[batch(8, k), np.arange(8) + k] for k in range(2)]
    _, after = trained(step, arrays, w)
    ran = single.run(step, arrays, (0, 5, 3))
    assert not ran.warnings
    assert [row[2] for row in ran.outputs] == [3, 4]
    assert ran.outputs[1][1].tolist() == [str(k).encode() for k in range(1, 9)]
    np.testing.assert_allclose(ran.variables["w"], after["w"], rtol=1e-5)
