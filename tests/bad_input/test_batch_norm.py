"""Synchronized batch normalization in odd places, and where it can't be: a refusal says why, and what to do instead."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError, UsageError
from tests.runtime.programs import TWO

X = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def mean_square(x):
    return tf.reduce_mean(tf.square(x))


class Training:
    """A dense layer and a batch normalization, and a step that is made from them."""

    def __init__(self):
        self.kernel = tf.Variable(np.eye(4, dtype=np.float32))
        self.norm = keras.layers.BatchNormalization()
        self.norm.build([None, 4])

    def normalized(self, x):
        return self.norm(x @ self.kernel, training=True)

    def step_of(self, *losses):
        def step(x):
            for loss in losses:
                with tf.GradientTape() as tape:
                    value = loss(self, x)
                self.kernel.assign_sub(0.1 * tape.gradient(value, self.kernel))

        return step


def in_a_branch(training, x):
    return mean_square(tf.cond(tf.shape(x)[0] > 3, lambda: training.normalized(x), lambda: x))


def with_a_penalty(training, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = mean_square(training.normalized(x) + x)
    return value + mean_square(tape.gradient(value, x))


def by_tensorflow(training, x):
    images = tf.reshape(x @ training.kernel, [-1, 2, 2, 1])
    return mean_square(tf.compat.v1.nn.fused_batch_norm(images, tf.ones([1]), tf.zeros([1]))[0] + images)


def run(step, **options):
    with autodist.scope(**TWO, **options) as ad:
        ad.function(step)(X)


@pytest.mark.parametrize("loss", [in_a_branch, with_a_penalty, by_tensorflow])
def test_statistics_are_those_of_the_whole_batch_wherever_they_are_taken(loss):
    def train(function):
        training = Training()
        function(training.step_of(loss))(X)
        return training

    plain = train(tf.function)
    with autodist.scope(**TWO, batch_norm="synchronized") as ad:
        found = train(ad.function)
    assert np.abs(plain.kernel.numpy() - np.eye(4)).max() > 1e-4
    np.testing.assert_allclose(found.kernel, plain.kernel, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.norm.moving_mean, plain.norm.moving_mean, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_losses_that_replicas_combine_by_themselves_leave_no_statistics_of_all(reduction):
    def loss(training, x):
        return mean_square(training.normalized(x) + x)

    refused = r"batch normalization at .*test_batch_norm.py:\d+ can't be synchronized in this step"
    with pytest.raises(CaptureError, match=refused) as raised:
        run(Training().step_of(loss), batch_norm="synchronized", gradient_reduction=reduction)
    assert "leave out `gradient_reduction=`" in raised.value.hint
    run(Training().step_of(loss), batch_norm="synchronized")
    run(Training().step_of(loss), gradient_reduction=reduction)


def test_statistics_in_a_branch_would_be_updated_once_per_replica():
    with pytest.raises(CaptureError, match=r"op `cond` \(If\) at .*test_batch_norm.py:\d+ changes `.*moving_mean`"):
        run(Training().step_of(in_a_branch), gradient_reduction="mean")


def test_statistics_in_a_branch_are_those_of_the_whole_batch():
    def train(function):
        training = Training()
        function(training.step_of(in_a_branch))(X)
        return training

    plain = train(tf.function)
    with autodist.scope(**TWO) as ad:
        found = train(ad.function)
    np.testing.assert_allclose(found.kernel, plain.kernel, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.norm.moving_mean, plain.norm.moving_mean, rtol=1e-5)
    assert np.abs(found.norm.moving_mean.numpy()).max() > 1e-4


def test_one_layer_in_a_mean_and_a_sum():
    def train(training, function):
        def step(x):
            with tf.GradientTape(persistent=True) as tape:
                hidden = training.normalized(x)
                losses = mean_square(hidden + x), tf.reduce_sum(hidden * x)
            for loss in losses:
                training.kernel.assign_sub(0.1 * tape.gradient(loss, training.kernel))

        function(step)(X)
        return training.kernel.numpy()

    with autodist.scope(**TWO, batch_norm="synchronized") as ad:
        found = train(Training(), ad.function)
    np.testing.assert_allclose(found, train(Training(), tf.function), rtol=1e-5, atol=1e-6)


def test_a_session_is_refused():
    refused = pytest.raises(UsageError, match="the graph of a session keeps batch normalization by replica")
    with tf.Graph().as_default(), autodist.scope(batch_norm="synchronized") as ad, refused:
        ad.Session()
