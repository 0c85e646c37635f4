"""Refusals of steps name what the user wrote; what they advise trains as one device does."""

import contextlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError

from .programs import TWO

X = np.random.default_rng(0).normal(size=(48, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)


class Plain:
    """What a program uses of AutoDist, without AutoDist."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)


def batches():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


class Linear:
    def __init__(self, **options):
        self.weight = tf.Variable(tf.fill((4, 1), 0.1))
        self.optimizer = keras.optimizers.Adam(0.1, epsilon=1e-2, **options)

    def gradient(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(x, self.weight) - y))
        return loss, tape.gradient(loss, self.weight)

    def update(self, x, y):
        loss, gradient = self.gradient(x, y)
        self.apply(gradient)
        return loss

    def apply(self, gradient):
        self.optimizer.apply_gradients([(gradient, self.weight)])

    def train(self, ad, step):
        losses = [np.asarray(step(*batch)) for batch in ad.shard(batches())]
        slots = [v.numpy() for v in self.optimizer.variables if "iteration" not in v.path]
        return [self.weight.numpy(), *slots, losses]


# What is refused ---------------------------------------------------------------------------------------------------


def whole_epoch(ad, linear):
    dataset = batches()

    @ad.function
    def epoch():
        for x, y in dataset:
            linear.update(x, y)

    epoch()


def whole_epoch_of_an_argument(ad, linear):
    @tf.function
    def epoch(dataset):
        for x, y in dataset:
            linear.update(x, y)

    epoch(batches())


def iterator(ad, linear):
    data = iter(batches())

    @ad.function
    def step():
        return linear.update(*next(data))

    step()


def summary(ad, linear):
    writer = tf.summary.create_file_writer(ad.directory)

    @ad.function
    def step(x, y):
        loss = linear.update(x, y)
        with writer.as_default():
            if loss > 0:  # a branch of the step
                tf.summary.scalar("loss", loss, step=0)
        return loss

    step(X, Y)


def queue(ad, linear):
    losses = tf.queue.FIFOQueue(10, [tf.float32])

    @ad.function
    def step(x, y):
        losses.enqueue(linear.update(x, y))

    step(X, Y)


def gradient_in_a_loop(ad, linear):
    @ad.function
    def step(x, y):
        count = tf.constant(0)
        while count < 2:
            linear.update(x, y)
            count += 1

    step(X, Y)


def gradient_changed_in_a_branch(ad, linear):
    @ad.function
    def step(x, y):
        loss, gradient = linear.gradient(x, y)
        if loss > 1:
            linear.apply(gradient * tf.reduce_mean(x))
        return loss

    step(X, Y)


REFUSED = {
    whole_epoch: ("goes over a dataset", "ad.shard(dataset)"),
    whole_epoch_of_an_argument: ("takes a _BatchDataset", "ad.shard(dataset)"),
    iterator: ("goes over a dataset", "ad.shard(dataset)"),
    summary: ("writes a summary in a part of it", "record_if(condition)"),
    queue: ("uses a queue", "outside of the step"),
    gradient_in_a_loop: ("a gradient is taken inside control flow", "`range(n)`"),
    gradient_changed_in_a_branch: ("to a gradient that is made inside control flow", "gradient_accumulation_steps"),
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_a_refusal_names_what_was_written(program, tmp_path):
    with autodist.scope(**TWO) as ad:
        ad.directory = str(tmp_path)
        with pytest.raises(CaptureError) as caught:
            program(ad, Linear())
    fact, remedy = REFUSED[program]
    assert fact in caught.value.message
    assert remedy in caught.value.hint
    if program is not whole_epoch_of_an_argument:
        assert re.search(rf"{re.escape(__file__)}:\d+", caught.value.message)


# What trains -------------------------------------------------------------------------------------------------------


def loop_outside(ad):
    linear = Linear()
    return linear.train(ad, ad.function(linear.update))


def summary_after_the_step(ad):
    linear, written = Linear(), []
    step = ad.function(linear.update)

    def and_write(x, y):
        written.append(step(x, y))
        with tf.summary.create_noop_writer().as_default():
            tf.summary.scalar("loss", written[-1], step=len(written))
        return written[-1]

    return linear.train(ad, and_write)


def python_loop(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        for _ in range(2):
            loss = linear.update(x, y)
        return loss

    return linear.train(ad, step)


def accumulated_by_keras(ad):
    linear = Linear(gradient_accumulation_steps=2)
    return linear.train(ad, ad.function(linear.update))


def accumulated_by_hand(ad):
    linear = Linear()
    total, count = tf.Variable(tf.zeros((4, 1))), tf.Variable(0)

    @ad.function
    def step(x, y):
        loss, gradient = linear.gradient(x, y)
        total.assign_add(gradient)
        count.assign_add(1)
        if count % 2 == 0:
            linear.apply(total / 2)
            total.assign(tf.zeros_like(total))
        return loss

    return [*linear.train(ad, step), total.numpy()]


def applied_if_finite(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        loss, gradient = linear.gradient(x, y)
        if tf.reduce_all(tf.math.is_finite(gradient)) and loss > 1:
            linear.apply(tf.clip_by_norm(gradient, 0.5))
        return loss

    return linear.train(ad, step)


def one_optimizer_or_the_other(ad):
    linear, other = Linear(), keras.optimizers.SGD(0.01)

    @ad.function
    def step(x, y):
        loss, gradient = linear.gradient(x, y)
        pairs = [(gradient, linear.weight)]
        tf.cond(loss > 2, lambda: other.apply_gradients(pairs), lambda: linear.optimizer.apply_gradients(pairs))
        return loss

    return linear.train(ad, step)


def a_table_in_a_branch(ad):
    table, optimizer = tf.Variable(tf.ones((6, 2))), keras.optimizers.SGD(0.5)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            rows = tf.gather(table, tf.cast(tf.abs(x[:, 0]) * 2, tf.int32))
            loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, axis=1, keepdims=True) - y))
        gradient = tape.gradient(loss, table)
        if loss > 1:
            optimizer.apply_gradients([(gradient, table)])
        return loss

    losses = [float(step(*batch)) for batch in ad.shard(batches())]
    return [table.numpy(), losses]


TRAINED = [
    loop_outside, summary_after_the_step, python_loop, accumulated_by_keras, accumulated_by_hand, applied_if_finite,
    one_optimizer_or_the_other, a_table_in_a_branch,
]  # fmt: skip


@pytest.mark.parametrize("strategy", ["AllReduce", "PartitionedPS"])
@pytest.mark.parametrize("program", TRAINED, ids=lambda program: program.__name__)
def test_what_is_advised_trains_as_one_device_does(program, strategy):
    def found(distributed):
        scope = autodist.scope(**TWO, strategy=strategy) if distributed else contextlib.nullcontext(Plain)
        with scope as ad:
            return [np.asarray(value) for value in program(ad)]

    expected = found(False)
    assert np.abs(expected[0] - expected[0].round(1)).max() > 1e-3, "the weights did not move"
    for one, other in zip(expected, found(True), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
