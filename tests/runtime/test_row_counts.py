"""Python code that asks how many rows a batch has: it gets the number of one device.

Where replicas have losses of their own, so that they would compute something else by it, that is told.
"""

import logging
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist

from .programs import TWO

ROWS = 16
X = np.random.default_rng(0).normal(size=(2 * ROWS, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")


def batches(**options):
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(ROWS, **options)


def total(x, y, weight):
    return tf.reduce_sum(tf.square(tf.matmul(x, weight) - y))


def mean(x, y, weight):
    return tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))


def branch(x, y, weight):
    if x.shape[0] is None:
        return total(x, y, weight)
    return total(x, y, weight) / x.shape[0]


def unpacked(x, y, weight):
    rows, width = x.shape
    return total(x, y, weight) / (rows or width)


def unpacked_for_its_width(x, y, weight):
    _, width = x.shape.as_list()
    return mean(x, y, weight) * width


def prepared(x, y, weight):
    rows = x.shape[0] or tf.shape(x)[0]
    return total(x, y, weight) / tf.cast(rows, "float32")


def prepared_by_keras(x, y, weight):
    rows = x.shape[0]
    if rows is None:
        rows = keras.ops.shape(x)[0]
    return total(x, y, weight) / keras.ops.cast(rows, "float32")


def compared(x, y, weight):
    return mean(x, y, weight) * (1.0 if x.shape == (ROWS, 4) else 2.0)


def distorted(x, y, weight):
    images = keras.ops.image.elastic_transform(tf.reshape(x, [-1, 2, 2, 1]), alpha=1.0, sigma=0.5, seed=3)
    return mean(tf.reshape(images, [-1, 4]), y, weight)


DIFFERENT = {
    "distorted": distorted,
    "or": lambda x, y, w: total(x, y, w) / (x.shape[0] or 1),
    "branch": branch,
    "unpacked": unpacked,
    "last_but_one": lambda x, y, w: total(x, y, w) / (x.shape[-2] or 1),
    "get_shape": lambda x, y, w: total(x, y, w) / (x.get_shape()[0] or 1),
    "as_list": lambda x, y, w: total(x, y, w) / (x.shape.as_list()[0] or 1),
    "tuple": lambda x, y, w: total(x, y, w) / ((*x.shape, 1)[0] or 1),
    "num_elements": lambda x, y, w: total(x, y, w) / (x.shape.num_elements() or 1),
    "transposed": lambda x, y, w: total(x, y, w) / (tf.transpose(x).shape[1] or 1),
    "compared": compared,
}
ALIKE = {
    "unpacked_for_its_width": unpacked_for_its_width,
    "prepared": prepared,
    "prepared_by_keras": prepared_by_keras,
    "compared_with_each_other": lambda x, y, w: mean(x, y, w) * (1.0 if x.shape[:1] == y.shape[:1] else 2.0),
    "printed": lambda x, y, w: mean(x, y, w) * len(f"{x.shape[0]}"[:0] + "1"),
    "layers": lambda x, y, w: mean(keras.layers.Flatten()(keras.layers.Reshape((2, 2))(x)), y, w),
    "remedy": lambda x, y, w: total(tf.reshape(x, [-1, 4]), y, w) / tf.cast(tf.shape(x)[0], "float32"),
}


def trained(ad, loss):
    weight = tf.Variable(tf.fill((4, 1), 0.1))
    optimizer = keras.optimizers.SGD(0.1)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(x, y, weight)
        optimizer.apply_gradients([(tape.gradient(value, weight), weight)])
        return value

    shard = batches() if ad is None else ad.shard(batches())
    return [weight.numpy(), *(float(step(*batch)) for batch in shard), weight.numpy()]


def in_scope(program, caplog, **options):
    """What a program finds on two replicas, and what is said of asking."""
    keras.utils.set_random_seed(1)
    with caplog.at_level(logging.WARNING, "autodist"), autodist.scope(**TWO, **options) as ad:
        found = program(ad)
    return found, [record.message for record in caplog.records if "asks in Python" in record.message]


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_step_that_becomes_another_one_is_told_once(name, caplog):
    _, said = in_scope(lambda ad: trained(ad, DIFFERENT[name]), caplog, gradient_reduction="mean")
    assert len(said) == 1, said
    assert re.search(rf"{re.escape(__file__)}:\d+", said[0])
    assert "None, where one device has 16" in said[0]
    assert "`tf.shape(x)[0]`" in said[0]


def trained_together(ad, losses):
    """Train by several losses in one step, each of a weight of its own."""
    weights = {name: tf.Variable(tf.fill((4, 1), 0.1), name=name) for name in losses}

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            values = {name: losses[name](x, y, weight) for name, weight in weights.items()}
            whole = tf.add_n(list(values.values()))
        for weight, gradient in zip(weights.values(), tape.gradient(whole, list(weights.values())), strict=True):
            weight.assign_sub(0.01 * gradient)
        return values

    shard = batches() if ad is None else ad.shard(batches())
    values = [{name: float(value) for name, value in step(*batch).items()} for batch in shard]
    return {name: [weight.numpy(), *(found[name] for found in values)] for name, weight in weights.items()}


@pytest.mark.parametrize("losses", [ALIKE, DIFFERENT], ids=["alike", "different"])
def test_the_number_is_that_of_one_device(losses, caplog):
    found, said = in_scope(lambda ad: trained_together(ad, losses), caplog)
    assert not said
    for name, expected in trained_together(None, losses).items():
        assert np.abs(expected[0] - 0.1).max() > 0.001, name
        for one, other in zip(expected, found[name], strict=True):
            np.testing.assert_allclose(other, one, rtol=1e-5, err_msg=name)


def test_a_function_for_any_number_of_rows_has_none_on_one_device_either(caplog):
    def program(ad):
        weight = tf.Variable(tf.fill((4, 1), 0.1))
        signature = [tf.TensorSpec([None, 4]), tf.TensorSpec([None, 1])]

        @tf.function(input_signature=signature)
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = branch(x, y, weight)
            weight.assign_sub(0.01 * tape.gradient(loss, weight))

        for batch in batches():
            step(*batch)
        return weight.numpy()

    found, said = in_scope(program, caplog)
    assert not said
    np.testing.assert_allclose(found, program(None), rtol=1e-5)


class Counting(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x) * (0.5 if x.shape[0] is None else 1.0)


def fitted(sharded, **options):
    def program(ad):
        model = Counting()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        dataset = batches(**options)
        model.fit(ad.shard(dataset) if sharded and ad is not None else dataset, verbose=0)
        return [*model.get_weights(), model.evaluate(dataset, verbose=0), model.predict(dataset, verbose=0)]

    return program


@pytest.mark.parametrize("sharded", [False, True])
def test_fit_tells_where_keras_knows_the_number_of_rows(sharded, caplog):
    program = fitted(sharded, drop_remainder=True)
    assert len(in_scope(program, caplog, gradient_reduction="mean")[1]) == 1


@pytest.mark.parametrize("size", [ROWS, ROWS - 1])
def test_fit_on_arrays_has_the_number_where_batches_of_one_size_make_them_up(size, caplog):
    def program(ad):
        model = Counting()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(X, Y, batch_size=size, shuffle=False, verbose=0)
        return model.get_weights()

    found, said = in_scope(program, caplog)
    assert not said
    keras.utils.set_random_seed(1)
    np.testing.assert_allclose(found[0], program(None)[0], rtol=1e-5)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("sharded", [False, True])
def test_fit_has_the_number_where_keras_knows_it(sharded, known, caplog):
    program = fitted(sharded, drop_remainder=known)
    found, said = in_scope(program, caplog)
    assert not said
    keras.utils.set_random_seed(1)
    for one, other in zip(program(None), found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def test_evaluation_that_asks_has_the_number_of_one_device(caplog):
    def program(ad):
        model = Counting()
        model.compile(keras.optimizers.SGD(0.1), "mse")
        model.fit(batches(), verbose=0)
        dataset = batches(drop_remainder=True)
        return [model.evaluate(dataset, verbose=0), model.predict(dataset, verbose=0)]

    found, _ = in_scope(program, caplog)
    keras.utils.set_random_seed(1)
    expected = program(None)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
