"""Steps that once were other than on one device, or ended in TensorFlow's words: each stands for its kind."""

import numpy as np
import pytest
import tensorflow as tf

from .test_replicate import batch, check

START = np.random.default_rng(5).normal(size=(2, 3)).astype(np.float32)


def labels(size, seed=0):
    return np.random.default_rng(seed).integers(3, size=size).astype(np.int32)


def cross_entropy(y, logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)


def taken(w, loss, rate=0.1):
    """Takes a gradient step; returns the loss."""
    with tf.GradientTape() as tape:
        value = loss()
    w.assign_sub(rate * tape.gradient(value, w))
    return value


def a_turn_for_each_row(w, x, y):
    """As many turns as there are examples, each of all of them."""
    turn = lambda i, h: (i + 1, tf.tanh(h + 0.1))  # noqa: E731
    return taken(w, lambda: tf.reduce_mean(tf.while_loop(lambda i, _: i < tf.shape(x)[0], turn, (0, x @ w))[1] ** 2))


def a_number_for_each_row(w, x, y):
    """A number that grows with each example, times each example's loss."""
    grown = lambda: tf.while_loop(lambda i, _: i < tf.shape(x)[0], lambda i, c: (i + 1, 1.1 * c), (0, 1.0))[1]  # noqa: E731
    return taken(w, lambda: tf.reduce_mean(cross_entropy(y, x @ w) * grown()))


def as_many_as_examples_say(w, x, y):
    """Numbers up to a count of all examples."""
    count = tf.reduce_sum(tf.cast(x[:, 0] > 0, tf.int32))
    return taken(
        w, lambda: tf.reduce_mean((x @ w) ** 2) * tf.cast(tf.reduce_sum(tf.range(count + 3)), tf.float32), 0.01
    )


def squeezed(w, x, y):
    """A replica with one row keeps the dim that one device has."""
    return taken(w, lambda: tf.reduce_mean(tf.reduce_max(tf.squeeze((x @ w)[:, None, :, None]), 1)))


def squeezed_pairs(w, x, y):
    def loss():
        scores = tf.squeeze(x @ w[:, :1])
        return tf.reduce_mean(tf.nn.softplus(scores[:, None] - scores[None]))

    return taken(w, loss)


def gradients_by_example(w, x, y):
    def of_example(pair):
        with tf.GradientTape() as tape:
            loss = cross_entropy(pair[1][None], pair[0][None] @ w)[0]
        return tape.gradient(loss, w)

    return tf.vectorized_map(of_example, (x, y))


def clipped_by_example(w, x, y):
    found = gradients_by_example(w, x, y)
    lengths = tf.norm(found, axis=[1, 2])
    w.assign_sub(0.1 * tf.reduce_mean(found * tf.minimum(1.0, tf.reduce_mean(lengths) / lengths)[:, None, None], 0))
    return lengths


def spread_of_gradients(w, x, y):
    found = gradients_by_example(w, x, y)
    w.assign_sub(0.1 * tf.reduce_mean(found, 0))
    return tf.math.reduce_variance(found, 0), tf.reduce_max(tf.norm(found, axis=[1, 2]))


def spread_of_a_jacobian(w, x, y):
    with tf.GradientTape() as tape:
        losses = cross_entropy(y, x @ w)
    jacobian = tape.jacobian(losses, w)
    w.assign_sub(0.1 * tf.reduce_mean(jacobian, 0))
    return tf.math.reduce_variance(jacobian, 0)


def spread_of_jacobians_by_inputs(w, x, y):
    def loss():
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = tf.tanh(x @ w)
        return tf.reduce_mean(tf.math.reduce_variance(tape.batch_jacobian(outputs, x), 0))

    return taken(w, loss)


def drawn_by_probabilities(w, x, y):
    """Numbers that no counter gives for rows alone, and that are drawn by what weights have computed."""

    def loss():
        logits = x @ w
        drawn = tf.random.stateless_categorical(logits, 1, [1, 2])
        return tf.reduce_mean(tf.gather(logits, drawn, batch_dims=1) ** 2)

    return taken(w, loss)


def asserted(w, x, y):
    """An assertion that shows its own rows."""
    tf.debugging.assert_less(y, 3)
    return taken(w, lambda: tf.reduce_mean(cross_entropy(y, x @ w)))


STEPS = (
    a_turn_for_each_row,
    a_number_for_each_row,
    as_many_as_examples_say,
    squeezed,
    squeezed_pairs,
    clipped_by_example,
    spread_of_gradients,
    spread_of_a_jacobian,
    spread_of_jacobians_by_inputs,
    drawn_by_probabilities,
    asserted,
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_equals_one_device(step):
    w = tf.Variable(START, name="w")
    ran = check(lambda x, y: step(w, x, y), [[batch(8, k), labels(8, k)] for k in range(2)], (3, 4, 1), w)
    assert not ran.warnings
    assert not ran.notes
    assert np.abs(ran.variables["w"] - START).max() > 1e-4
