"""Groups of replicas: a mean over the batch that other numbers are multiplied by is that of all groups."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.testing import certify_in_process

from .test_groups import FOUR


def routed(share):
    """A step that chooses experts by example; a loss multiplies the share that each has by its mean probability."""

    def make():
        numbers = np.random.default_rng(1)
        router, dense, mixed = (
            tf.Variable(numbers.normal(size=size).astype(np.float32) * 0.4, name=name)
            for name, size in (("router", (8, 6)), ("dense", (8, 3)), ("mixed", (6, 4)))
        )

        def step(x, y):
            with tf.GradientTape() as tape:
                chances = tf.nn.softmax(x @ router)
                gate = tf.reduce_sum(tf.math.top_k(chances, 2)[0], 1, keepdims=True)
                shares = share(chances)
                loss = tf.reduce_mean((x * gate @ dense - y) ** 2) + tf.reduce_sum((shares[None] @ mixed) ** 2)
                loss += tf.reduce_sum(shares * tf.reduce_mean(chances, 0))
            variables = (router, dense, mixed)
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.3 * gradient)
            return loss

        return step

    return make


@pytest.mark.parametrize("dims", ["'dense=0'", "'router=1', 'mixed=0'"])
@pytest.mark.parametrize(
    "share",
    [
        lambda chances: tf.stop_gradient(tf.reduce_mean(chances, 0)),
        lambda chances: tf.reduce_mean(tf.one_hot(tf.argmax(chances, 1), 6), 0),
    ],
    ids=["mean", "chosen"],
)
def test_a_mean_of_the_batch_that_a_loss_multiplies_is_that_of_all_groups(share, dims):
    """Parts of the product were made from a group's own mean, before groups have met: weights were wrong."""
    numbers = np.random.default_rng(0)
    batches = [[numbers.normal(size=(8, n)).astype(np.float32) for n in (8, 3)] for _ in range(2)]
    certify_in_process(routed(share), batches, f"Tiled(dims=({dims}, '*=whole'), groups=2)", FOUR)
