"""Defect B7.1 of the original: every local replica got the whole batch, and results per example were never joined.

Its only numeric test can't see that, for the mean of equal gradients is the same gradient. A sum can.
"""

import numpy as np
import pytest
import tensorflow as tf

from .single import run


@pytest.mark.parametrize("sizes", [(3, 3), (4, 2), (1, 2, 3), (6, 0)])
def test_feeds_are_split_over_local_replicas(sizes):
    weight = tf.Variable([1.0, -2.0], name="weight")

    def step(rows):
        with tf.GradientTape() as tape:
            each = tf.linalg.matvec(rows, weight)
            loss = tf.reduce_sum(tf.square(each))
        weight.assign_sub(0.01 * tape.gradient(loss, weight))
        return loss, each, tf.shape(rows)[0]

    rows = np.arange(12, dtype="float32").reshape(6, 2)
    each = rows @ [1.0, -2.0]
    ran = run(step, [[rows]], sizes)
    [(loss, found, count)] = ran.outputs
    np.testing.assert_allclose(loss, np.sum(each**2), rtol=1e-6)
    np.testing.assert_allclose(found, each, rtol=1e-6)
    assert count == 6
    np.testing.assert_allclose(ran.variables["weight"], [1.0, -2.0] - 0.01 * 2 * each @ rows, rtol=1e-5)
