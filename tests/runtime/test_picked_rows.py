"""Examples that a program picks by number, where a replica's part of the batch has fewer of them."""

import contextlib
import logging
import re
from itertools import pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError

from .programs import TWO

ROWS = 16
X = np.random.default_rng(0).normal(size=(2 * ROWS, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


def error(x, y, weight):
    return tf.square(tf.matmul(x, weight) - y)[:, 0]


def mean(x, y, weight):
    return tf.reduce_mean(error(x, y, weight))


def summed_in_a_loop(count):
    def loss(x, y, weight):
        errors, total = error(x, y, weight), tf.constant(0.0)
        for k in tf.range(count):
            total += errors[k]
        return total

    return loss


def summed_from_an_array(x, y, weight):
    errors = tf.TensorArray(tf.float32, size=0, dynamic_size=True).unstack(error(x, y, weight))
    total = tf.constant(0.0)
    for k in tf.range(ROWS):
        total += errors.read(k)
    return total


def mapped(x, y, weight):
    return tf.reduce_mean(tf.map_fn(lambda k: error(x, y, weight)[k], tf.range(ROWS), fn_output_signature=tf.float32))


REFUSED = {
    "row": lambda x, y, w: error(x, y, w)[10],
    "median": lambda x, y, w: tf.sort(error(x, y, w))[ROWS // 2],
    "top_k": lambda x, y, w: tf.reduce_mean(tf.math.top_k(error(x, y, w), 10)[0]),
    "cumulated": lambda x, y, w: tf.cumsum(error(x, y, w))[10],
    "by_order": lambda x, y, w: tf.gather(error(x, y, w), tf.argsort(y[:, 0])[10]),
    "gather": lambda x, y, w: tf.reduce_mean(tf.gather(error(x, y, w), [1, 10])),
    "gather_sorted": lambda x, y, w: tf.gather(tf.sort(error(x, y, w)), [8])[0],
    "gather_columns": lambda x, y, w: tf.reduce_mean(tf.gather(error(x, y, w)[None], [1, 10], axis=1)),
    "gather_nd": lambda x, y, w: tf.reduce_mean(tf.gather_nd(error(x, y, w), [[1], [10]])),
    "gather_diagonal": lambda x, y, w: tf.gather(tf.linalg.diag_part(tf.matmul(x * w[:, 0], x, transpose_b=True)), 10),
    "scatter": lambda x, y, w: tf.reduce_mean(tf.tensor_scatter_nd_update(error(x, y, w), [[10]], [0.0])),
    "split": lambda x, y, w: tf.reduce_mean(tf.split(error(x, y, w), [5, 11])[0]),
    "slice": lambda x, y, w: tf.reduce_mean(tf.slice(error(x, y, w), [2], [10])),
    "unstack": lambda x, y, w: tf.add_n(tf.unstack(error(x, y, w), num=ROWS)),
    "unrolled": lambda x, y, w: tf.add_n([error(x, y, w)[k] for k in range(ROWS)]),
    "identity": lambda x, y, w: tf.reduce_mean(tf.matmul(tf.eye(ROWS), error(x, y, w)[:, None])),
    "loop": summed_in_a_loop(10),
    "loop_over_all": summed_in_a_loop(ROWS),
    "array": summed_from_an_array,
    "map": mapped,
}
MET = {
    "masked": lambda x, y, w: tf.boolean_mask(error(x, y, w), y[:, 0] > -100.0)[10],
    "row": lambda x, y, w: error(x, y, w)[3],
    "slice": lambda x, y, w: tf.reduce_mean(error(x, y, w)[:10]),
    "data": lambda x, y, w: mean(x[:10], y[:10], w),
    "gather": lambda x, y, w: tf.reduce_mean(tf.gather(error(x, y, w), [1, 3])),
    "loop": summed_in_a_loop(4),
    "placed": lambda x, y, w: tf.reduce_max(tf.scatter_nd(tf.range(tf.shape(x)[0])[:, None], error(x, y, w), [ROWS])),
    "one_hot": lambda x, y, w: tf.reduce_sum(tf.matmul(tf.one_hot([1, 3], tf.shape(x)[0]), error(x, y, w)[:, None])),
}
EXACT = {
    "gather_data": lambda x, y, w: mean(tf.gather(x, [1, 10]), tf.gather(y, [1, 10]), w),
    "slice_data": lambda x, y, w: mean(tf.slice(x, [2, 0], [10, 4]), tf.slice(y, [2, 0], [10, 1]), w),
    "one_hot_data": lambda x, y, w: mean(*(tf.one_hot([1, 10], tf.shape(x)[0]) @ data for data in (x, y)), w),
}


def trained(shard, loss, sizes=(ROWS, ROWS), *given):
    """The weight and the losses after batches of these sizes."""
    weight = tf.Variable(tf.reshape(tf.linspace(0.1, 0.4, 4), (4, 1)))
    optimizer = keras.optimizers.SGD(0.05)

    @tf.function(reduce_retracing=True)
    def step(x, y, *others):
        with tf.GradientTape() as tape:
            value = loss(x, y, weight, *others)
        optimizer.apply_gradients([(tape.gradient(value, weight), weight)])
        return value

    ends = np.cumsum((0, *sizes))
    before = weight.numpy()
    losses = [float(step(X[a:b], Y[a:b], *given)) for a, b in pairwise(ends)]
    assert np.abs(weight.numpy() - before).max() > 1e-3
    return [weight.numpy(), losses]


def in_scope(loss, *args, **options):
    with autodist.scope(**TWO, **options):
        return trained(None, loss, *args)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_part_does_not_have_is_refused_by_line(name):
    with pytest.raises(CaptureError) as caught:
        in_scope(REFUSED[name], gradient_reduction="mean")
    assert re.search(rf"op `.*{re.escape(__file__)}:\d+", caught.value.message), caught.value
    assert "tf.shape(x)[0]" in caught.value.hint


@pytest.mark.parametrize("name", [*MET, *REFUSED])
def test_rows_are_picked_of_the_whole_batch(name, caplog):
    loss = {**MET, **REFUSED}[name]
    with caplog.at_level(logging.WARNING, "autodist"):
        found = in_scope(loss)
    assert not caplog.records
    for one, other in zip(trained(None, loss), found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize("name", ["row", "loop"])
def test_what_a_part_has_too_is_warned_of_where_replicas_have_losses_of_their_own(name, caplog):
    with caplog.at_level(logging.WARNING, "autodist"):
        in_scope(MET[name], gradient_reduction="mean")
    said = [record.message for record in caplog.records if record.message.startswith("the loss: op")]
    assert said
    assert all(re.search(rf"{re.escape(__file__)}:\d+", text) for text in said)


@pytest.mark.parametrize("name", EXACT)
def test_data_is_picked_from_the_whole_batch(name):
    for one, other in zip(trained(None, EXACT[name]), in_scope(EXACT[name]), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def test_the_remedy_trains_as_one_device_does():
    def loss(x, y, weight, weights):
        return tf.reduce_sum(weights * error(x, y, weight))

    picking = np.isin(np.arange(ROWS), [1, 10]).astype("float32")
    expected = trained(None, lambda x, y, w: tf.reduce_sum(tf.gather(error(x, y, w), [1, 10])))
    for one, other in zip(expected, in_scope(loss, (ROWS, ROWS), picking), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "loss"),
    [
        ((1, 15), lambda x, y, w: tf.reduce_sum(tf.sort(error(x, y, w)) * tf.linspace(0.5, 1.0, 15))),
        ((26, 6), lambda x, y, w: error(x, y, w)[4]),
    ],
    ids=["one_row_first", "fewer_rows_later"],
)
def test_later_batches_are_looked_at_too(sizes, loss):
    expected = trained(None, loss, sizes)
    for one, other in zip(expected, in_scope(loss, sizes), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)
    with pytest.raises(CaptureError, match=f"needs all {sizes[1]} rows of the batch"):
        in_scope(loss, sizes, gradient_reduction="mean")


def filled_up_to_two(x, y, w):
    rows = tf.shape(x)[0]
    return tf.reduce_mean(tf.pad(error(x, y, w), [[0, tf.maximum(rows, 2) - rows]]))


@pytest.mark.parametrize("sizes", [(15, 1), (9, 8, 7, 6, 1)], ids=["soon", "after many"])
def test_a_single_row_that_is_filled_up_to_two(sizes, monkeypatch):
    monkeypatch.setattr("autodist.runtime._part_checks._MOST", 3)
    for one, other in zip(trained(None, filled_up_to_two, sizes), in_scope(filled_up_to_two, sizes), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def test_a_step_that_fits_a_single_row_only_is_said_to(caplog):
    with caplog.at_level(logging.INFO, "autodist"):
        in_scope(lambda x, y, w: tf.reduce_sum(tf.sort(error(x, y, w)) * tf.linspace(0.5, 1.0, 15)), (1, 15))
    assert "is for 1 row only, it fails with 2: Dimensions must be equal" in caplog.text


NUMBERS = np.arange(2 * ROWS, dtype="int32") % 10
TABLE = np.ones((10, 1), "float32")
FAILING = {
    "row": lambda e, n: e[tf.reduce_max(n)],
    "sorted": lambda e, n: tf.sort(e)[tf.reduce_max(n)],
    "top_k": lambda e, n: tf.reduce_mean(tf.math.top_k(e, tf.reduce_max(n))[0]),
    "scatter": lambda e, n: tf.reduce_mean(tf.tensor_scatter_nd_update(e, tf.reduce_max(n)[None, None], [0.0])),
}
OWN_FAULT = {
    "check": lambda e, n: tf.debugging.check_numerics(e[3] / tf.cast(10 - tf.reduce_max(n), tf.float32), "too far"),
    "lookup": lambda e, n: e[3] + tf.reduce_mean(tf.gather(tf.constant(TABLE), n)),
    "column": lambda e, n: e[3] + tf.reduce_mean(tf.gather(tf.stack([e] * 10, 1), n, axis=1, batch_dims=1)),
}


def with_number(loss, number, options=None):
    """Train on two batches, in the second of which all examples have this number; returns the weight."""
    numbers = np.where(np.arange(2 * ROWS) < ROWS, NUMBERS % 4, number).astype("int32")
    data = np.concatenate([X, numbers[:, None]], axis=1).astype("float32")

    def of_data(x, y, weight):
        return loss(error(x[:, :4], y, weight), tf.cast(x[:, 4], tf.int32))

    weight = tf.Variable(tf.fill([4, 1], 0.3))
    with contextlib.nullcontext() if options is None else autodist.scope(**options):

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                value = of_data(x, y, weight)
            weight.assign_sub(0.01 * tape.gradient(value, weight))
            return value

        for begin in (0, ROWS):
            step(data[begin : begin + ROWS], Y[begin : begin + ROWS])
    return weight.numpy()


@pytest.mark.parametrize("name", FAILING)
def test_what_a_part_does_not_have_is_told_when_the_number_is_known(name):
    with pytest.raises(CaptureError, match="fails on a replica's part of the batch") as caught:
        with_number(FAILING[name], 9, {**TWO, "gradient_reduction": "mean"})
    assert f"{__file__}:" in caught.value.message
    np.testing.assert_allclose(with_number(FAILING[name], 9, TWO), with_number(FAILING[name], 9), rtol=1e-5)


@pytest.mark.parametrize("name", OWN_FAULT)
def test_what_fails_on_one_device_too_is_not_blamed_on_the_parts(name):
    with pytest.raises(tf.errors.InvalidArgumentError):
        with_number(OWN_FAULT[name], 10, TWO)
