"""Whatever a step computes, on several replicas it computes what it would on one device."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import autodist

ROWS = {
    "x": lambda x: x,
    "square": lambda x: x * x,
    "softmax": lambda x: tf.nn.softmax(x),
    "positive": lambda x: tf.cast(x > 0, tf.float32),
    "normalized": lambda x: x / (1.0 + tf.norm(x, axis=1, keepdims=True)),
}
SUMS = {
    "mean": lambda r: tf.reduce_mean(r),
    "sum": lambda r: tf.reduce_sum(r),
    "mean by column": lambda r: tf.reduce_mean(r, axis=0),
    "per element": lambda r: tf.reduce_sum(r) / tf.cast(tf.size(r), tf.float32),
    "gram": lambda r: tf.reduce_sum(tf.matmul(r, r, transpose_a=True)),
    "count": lambda r: tf.cast(tf.shape(r)[0], tf.float32),
}
AFTER = {
    "as it is": lambda s: s,
    "root": lambda s: tf.sqrt(tf.abs(s) + 1.0),
    "affine": lambda s: 3.0 * s - 2.0,
    "ratio": lambda s: s / (1.0 + tf.reduce_sum(s * s)),
    "added to itself": lambda s: s + tf.exp(-tf.abs(s)),
}


def chosen(options):
    return st.sampled_from(sorted(options))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    row=chosen(ROWS),
    total=chosen(SUMS),
    after=chosen(AFTER),
    replicas=st.integers(2, 4),
    size=st.integers(1, 9),
    seed=st.integers(0, 100),
)
def test_outputs_state_and_weights_are_those_of_one_device(row, total, after, replicas, size, seed):
    x = np.random.default_rng(seed).normal(size=(size, 3)).astype(np.float32)
    value = tf.function(lambda x: AFTER[after](SUMS[total](ROWS[row](x))))

    def train(distribute):
        w = tf.Variable([1.0, -2.0, 0.5])
        kept = tf.Variable(tf.zeros_like(value(x)))

        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(ROWS[row](x) @ w[:, tf.newaxis] - 1.0))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            kept.assign_add(AFTER[after](SUMS[total](ROWS[row](x))))
            return loss, AFTER[after](SUMS[total](ROWS[row](x))), ROWS[row](x)

        if not distribute:
            outputs = [tf.function(step)(x) for _ in range(2)]
        else:
            ad = autodist.AutoDist(autodist.ResourceSpec.local(cpus=replicas))
            with ad.scope():
                distributed = ad.function(step)
                outputs = [distributed(x) for _ in range(2)]
        return [w, kept, *tf.nest.flatten(outputs)]

    for one, many in zip(train(False), train(True), strict=True):
        assert many.shape == one.shape
        np.testing.assert_allclose(many.numpy(), one.numpy(), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_a_replica_without_examples_changes_nothing(size):
    ids = np.array([3, 3][:size], np.int32)

    def train(distribute):
        table, seen = tf.Variable(tf.ones([6, 2])), tf.Variable(0)

        def step(ids):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids)))
            table.scatter_sub(tape.gradient(loss, table))
            seen.assign_add(tf.size(ids))
            return loss

        if not distribute:
            tf.function(step)(ids)
        else:
            ad = autodist.AutoDist(autodist.ResourceSpec.local(cpus=4))
            with ad.scope():
                ad.function(step)(ids)
        return table.numpy(), seen.numpy()

    (one, seen_by_one), (many, seen_by_many) = train(False), train(True)
    np.testing.assert_allclose(many, one, rtol=1e-6)
    assert seen_by_many == seen_by_one == size
    assert not np.array_equal(one, np.ones([6, 2]))
