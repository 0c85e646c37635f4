"""Sums over the batch with terms that do not depend on it: these count once, whatever is made of the sum linearly."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.strategies import PartitionedPS
from autodist.testing import InProcessCluster

from . import plans
from .test_replicate import check_losses

MIXING = tf.constant([[1.0, 0.5], [-0.5, 2.0]])


def penalized(x, weights):
    """The gradient with respect to weights is that of a sum over examples and that of a penalty, which add up there."""
    return tf.reduce_sum(tf.square(x @ weights - 1.0)) + 0.3 * tf.reduce_sum(tf.square(weights))


def halves(w, x):
    upper, lower = tf.split(w, 2)
    return penalized(x, tf.concat([2.0 * upper, lower], 0)) + 0.1 * tf.reduce_sum(tf.square(upper))


LOSSES = {
    "as they are": lambda w, x: penalized(x, w),
    "doubled": lambda w, x: penalized(x, 2.0 * w),
    "divided": lambda w, x: penalized(x, w / 3.0),
    "negative": lambda w, x: penalized(x, -w),
    "transposed": lambda w, x: penalized(x, tf.transpose(w)),
    "reshaped": lambda w, x: penalized(x, tf.reshape(tf.reshape(w, [4]), [2, 2])),
    "of another type": lambda w, x: tf.cast(penalized(tf.cast(x, tf.float64), tf.cast(w, tf.float64)), tf.float32),
    "mixed": lambda w, x: penalized(x, w @ MIXING),
    "added to": lambda w, x: penalized(x, w + 0.5),
    "less something": lambda w, x: penalized(x, 1.0 - w),
    "halves": halves,
    "one column": lambda w, x: penalized(x, w[:, :1]) + tf.reduce_sum(tf.square(x @ w)),
    "padded": lambda w, x: penalized(x, tf.pad(w, [[0, 0], [1, 0]])),
    "softplus": lambda w, x: penalized(x, tf.nn.softplus(w)),
    "tanh and exp": lambda w, x: penalized(x, tf.tanh(w) * tf.exp(0.1 * w)),
    "where": lambda w, x: penalized(x, tf.where(MIXING > 0.6, w, 2.0)),
    "a bias": lambda w, x: penalized(x, w[:, :1] * 2.0) + tf.reduce_sum(tf.square(x + 3.0 * w[0] - 1.0)),
    "products": lambda w, x: penalized(x @ w, w @ w),
    "normalized": lambda w, x: penalized(x, w / tf.norm(w, axis=0)),
    "turned": lambda w, x: penalized(x, tf.reverse(w, [0])),
    "scaled by another penalty": lambda w, x: penalized(x, w * tf.exp(-0.1 * tf.reduce_sum(w))),
}


@pytest.mark.parametrize("sizes", [(9, 7), (7, 0, 9)])
def test_terms_that_do_not_depend_on_the_batch_count_once(sizes):
    check_losses(LOSSES, [[1.0, 0.3], [0.4, -0.5]], 0.01, sizes, moved=1e-3)


def test_a_penalty_counts_once_in_shards_on_servers():
    first, last = tf.Variable(tf.reshape(tf.range(12.0) / 10.0, [6, 2]), name="first"), tf.Variable([[0.5], [-1.0]])

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.tanh(x @ first) @ last)) + 0.3 * tf.reduce_sum(tf.square(first))
        for gradient, variable in zip(tape.gradient(loss, [first, last]), [first, last], strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    x = np.random.default_rng(1).normal(size=(5, 6)).astype("float32")
    before = first.numpy()
    with InProcessCluster(
        step, [x], PartitionedPS(min_shard_bytes=0, communicator="tcp"), plans.hosts(2, 1)
    ) as cluster:
        cluster.step(x)
        found = cluster.values()
    step(tf.constant(x))
    shards = [parts[0] for name, parts in sorted(found.items()) if name.startswith("first")]
    assert len(shards) > 1
    assert np.abs(first.numpy() - before).max() > 1e-2
    np.testing.assert_allclose(np.concatenate(shards), first.numpy(), rtol=1e-5)
