"""Batches of one row: `tf.squeeze` without dims leaves the batch out of them, on replicas as on one device."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist

X = np.random.default_rng(0).normal(size=(8, 3)).astype("float32")


def squeezed(x, w):
    return tf.squeeze(x @ w)


def by_keras(x, w):
    return keras.ops.squeeze(x @ w)


def dims_by_rank(x, w):
    """Python sees another rank."""
    found = tf.squeeze(x @ w)
    return found * 2.0 if found.shape.rank == 0 else found


def in_a_branch(x, w):
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.squeeze(x @ w), lambda: tf.squeeze(x @ w) - 1.0)


TRACED = tf.function(tf.squeeze, input_signature=[tf.TensorSpec([None, 1])])


def traced_before(x, w):
    """A replica with one row of several keeps it, also in a function that was traced outside of the scope."""
    return TRACED(x @ w)


COMPUTED = tf.function(lambda scores: tf.squeeze(scores * 2.0) + 0.5, input_signature=[tf.TensorSpec([None, 1])])


def computed_before(x, w):
    """Within the function nothing lists the shape of what is left out."""
    return COMPUTED(x @ w)


def found_by(program, counts, scope):
    """What a step returns for batches of so many rows, and the weights."""
    w = tf.Variable([[0.1], [0.2], [-0.1]], name="w")
    TRACED(X[:, :1])
    COMPUTED(X[:, :1])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            scores = program(x, w)
            loss = tf.reduce_mean(tf.nn.softplus(scores[..., None] - scores + 1.0))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return scores, loss

    with scope:
        found = [value.numpy() for count in counts for value in step(X[:count])]
    return [*found, w.numpy()]


PROGRAMS = (squeezed, by_keras, dims_by_rank, in_a_branch, traced_before, computed_before)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("counts", [(4, 1, 3), (1, 2)], ids=str)
def test_has_as_many_dims_as_on_one_device(program, counts):
    expected = found_by(program, counts, contextlib.nullcontext())
    replicas = 3 if counts[0] == 4 else 1
    found = found_by(program, counts, autodist.scope(spec=autodist.ResourceSpec.local(cpus=replicas)))
    assert [value.shape for value in found] == [value.shape for value in expected]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    assert found[0].shape == ((4,) if counts[0] == 4 else ())


def test_without_a_trace_for_one_row_it_is_refused():
    scope = autodist.scope(spec=autodist.ResourceSpec.local(cpus=2), gradient_reduction="mean")
    with pytest.raises(autodist.errors.CaptureError, match="leaves out all dims of size 1") as caught:
        found_by(squeezed, (4, 1), scope)
    assert "axis=-1" in caught.value.hint
