"""Rows of one and zeros next to tiled weights: the numbers they are made of travel, the rows do not."""

import numpy as np
import pytest
import tensorflow as tf

from . import single
from .test_tiled_tables import of_one_device

WORDS, WIDTH = 12000, 4


def variable(*shape, seed=0):
    return tf.Variable(np.random.default_rng(seed).normal(size=shape), name="table")


def narrow(y):
    return tf.one_hot(y % WIDTH, WIDTH, dtype=tf.float64)


def rows(made):
    """Rows of a table, by a product; `made` gives the rows of one and zeros."""
    table = variable(WORDS, WIDTH)
    return table, lambda x, y: (made(x) @ table) * narrow(y), 0


def labels(made):
    """The cross entropy of classes, of which each replica has some."""
    head = variable(WIDTH, WORDS)
    return head, lambda x, y: tf.nn.softmax_cross_entropy_with_logits(made(x), narrow(y) @ head), 1


def smoothed(x):
    return tf.one_hot(x, WORDS, dtype=tf.float64) * 0.9 + 0.1 / WORDS


CASES = {
    "a table": (rows, lambda x: tf.one_hot(x, WORDS, dtype=tf.float64), np.int32),
    "long numbers": (rows, lambda x: tf.one_hot(x, WORDS, dtype=tf.float64), np.int64),
    "other values": (
        rows,
        lambda x: tf.one_hot(x, WORDS, tf.constant(2.0, tf.float64), tf.constant(0.5, tf.float64)),
        np.int32,
    ),
    "another dim": (rows, lambda x: tf.transpose(tf.one_hot(x, WORDS, axis=0, dtype=tf.float64)), np.int32),
    "labels": (labels, lambda x: tf.one_hot(x, WORDS, dtype=tf.float64), np.int32),
    "smoothed labels": (labels, smoothed, np.int32),
}


def steps(case):
    build, made, dtype = CASES[case]
    weights, values, dim = build(made)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(values(x, y)))
        weights.assign_sub(0.5 * tape.gradient(loss, weights))
        return loss

    numbers = np.random.default_rng(1)
    some = numbers.integers(0, min(WORDS, np.iinfo(dtype).max + 1), (2, 7)).astype(dtype)
    return weights, step, [[x, numbers.integers(0, 100, 7).astype(np.int32)] for x in some], dim


@pytest.mark.parametrize("sizes", [[4, 3], [3, 0, 4]], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_each_replica_makes_the_places_of_its_part(case, sizes):
    weights, step, data, dim = steps(case)
    losses, [before], [after] = of_one_device(step, [weights], data)
    strategy = f"Tiled(dims=('table={dim}',))"

    exchanged = single.rewritten(step, data[0], len(sizes), strategy, batch_size=7)[1].exchanged
    assert not [one for one in exchanged if one.size_bytes > 8 * 7 * WIDTH]
    ran = single.run(step, data, sizes, strategy=strategy, batch_size=7)

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-12)
    np.testing.assert_allclose(ran.variables["table"], after, rtol=1e-12, atol=1e-12)
    assert np.abs(after - before).max() > 1e-3


@pytest.mark.parametrize(("dtype", "none"), [(np.int32, (-1, WORDS, WORDS + 7)), (np.uint8, (3, 200, 255))], ids=str)
def test_numbers_of_no_row_make_none_and_bytes_are_not_counted(dtype, none):
    weights, step, data, dim = steps("a table")
    data = [[(x % 256).astype(dtype), y] for x, y in data]
    data[0][0][:3] = none
    losses, [before], [after] = of_one_device(step, [weights], data)

    ran = single.run(step, data, [3, 4], strategy=f"Tiled(dims=('table={dim}',))", batch_size=7)

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-12)
    np.testing.assert_allclose(ran.variables["table"], after, rtol=1e-12, atol=1e-12)
    assert np.abs(after - before).max() > 1e-3
