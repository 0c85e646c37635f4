"""Gradients that a step goes on with: by inputs, by what weights were made into, of gradients, and by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError

from . import single
from .test_replicate import batch, check, check_losses


def net(w, x):
    return tf.reduce_sum(tf.tanh(x @ w) * [1.0, -2.0], 1)


def by(source, value_of, reduce=tf.reduce_mean):
    """The gradient by a tensor, on a tape."""
    with tf.GradientTape() as tape:
        tape.watch(source)
        value = reduce(value_of(source))
    return tape.gradient(value, source)


def error(w, x):
    return tf.square(net(w, x) - x[:, 0])


def penalty(gradient):
    return tf.reduce_mean(tf.square(tf.norm(gradient, axis=1) - 1.0))


def attacked(w, x, change):
    return tf.reduce_mean(error(w, x) + error(w, x + change(by(x, lambda x: error(w, x)))))


def several_steps(w, x):
    found = x
    for _ in range(3):
        found = tf.clip_by_value(found + 2.0 * by(found, lambda x: error(w, x)), x - 0.3, x + 0.3)
        found = tf.stop_gradient(found)
    return tf.reduce_mean(error(w, found))


def adapted(w, x, inner, outer):
    with tf.GradientTape() as tape:
        value = inner(error(w, x))
    return outer(error(w - 0.05 * tape.gradient(value, w), x))


def adapted_twice(w, x):
    fast = w + 0.0
    for _ in range(2):
        fast -= 0.1 * by(fast, lambda fast: error(fast, x))
    return tf.reduce_mean(error(fast, x))


def steepness(w, x, inner, outer):
    with tf.GradientTape() as tape:
        value = inner(error(w, x))
    return outer(error(w, x)) + 0.01 * tf.reduce_sum(tf.square(tape.gradient(value, w)))


def curvature(w, x, inner, outer):
    first = lambda x: inner(tf.square(by(x, lambda x: net(w, x), inner)))  # noqa: E731
    return tf.reduce_mean(error(w, x)) + outer(tf.square(by(x, first, lambda value: value)))


MEAN, SUM = tf.reduce_mean, tf.reduce_sum
LOSSES = {
    "penalty": lambda w, x: tf.reduce_mean(net(w, x)) + penalty(by(x, lambda x: net(w, x))),
    "penalty of a sum": lambda w, x: tf.reduce_mean(net(w, x)) + penalty(by(x, lambda x: net(w, x), SUM)),
    "penalty of rows": lambda w, x: tf.reduce_mean(net(w, x)) + penalty(by(x, lambda x: net(w, x), tf.identity)),
    "penalty by tf.gradients": lambda w, x: penalty(tf.gradients(tf.reduce_mean(net(w, x)), x)[0]),
    "penalty between": lambda w, x: penalty(by(0.3 * x + 0.7 * tf.sin(x), lambda x: net(w, x))),
    "penalty by activations": lambda w, x: penalty(by(tf.tanh(x @ w), tf.square)) + tf.reduce_mean(net(w, x)),
    "squares added": lambda w, x: tf.reduce_mean(net(w, x)) + tf.reduce_sum(by(x, lambda x: net(w, x)) ** 2),
    "mean and sum": lambda w, x: penalty(
        by(x, lambda x: tf.reduce_mean(error(w, x)) + 0.1 * tf.reduce_sum(x**2), tf.identity)
    ),
    "sign": lambda w, x: attacked(w, x, lambda g: 0.1 * tf.sign(g)),
    "raw": lambda w, x: attacked(w, x, lambda g: 3.0 * g),
    "normalized": lambda w, x: attacked(w, x, lambda g: tf.stop_gradient(tf.linalg.l2_normalize(g, 1))),
    "several steps": several_steps,
    "picked": lambda w, x: tf.reduce_mean(by(x, lambda x: tf.boolean_mask(error(w, x), x[:, 0] > 0)) ** 2),
    "for all examples": lambda w, x: tf.reduce_mean(
        error(w, x + 0.5 * by(tf.zeros([1, 2]), lambda shift: error(w, x + shift)))
    ),
    "curvature": lambda w, x: curvature(w, x, MEAN, MEAN),
    "curvature of sums": lambda w, x: curvature(w, x, SUM, SUM),
    "adapted": lambda w, x: adapted(w, x, MEAN, MEAN),
    "adapted by a sum": lambda w, x: adapted(w, x, SUM, MEAN),
    "adapted for a sum": lambda w, x: adapted(w, x, MEAN, SUM),
    "adapted twice": adapted_twice,
    "steepness of a sum": lambda w, x: steepness(w, x, SUM, MEAN),
    "steepness beside a sum": lambda w, x: steepness(w, x, MEAN, SUM),
    "steepness alone": lambda w, x: steepness(w, x, SUM, lambda value: 0.0),
}

SECOND = {
    "penalty of a sum", "penalty by tf.gradients", "penalty between", "raw", "several steps", "curvature of sums",
    "adapted for a sum", "adapted twice", "steepness alone",
}  # fmt: skip
"""Of derivatives that others go the way of."""
FIRST = {name: loss for name, loss in LOSSES.items() if name not in SECOND}


@pytest.mark.parametrize(
    ("losses", "sizes"),
    [
        pytest.param(LOSSES, (9, 7), marks=pytest.mark.slow),
        pytest.param(LOSSES, (7, 0, 9), marks=pytest.mark.slow),
        (FIRST, (7, 9)),
    ],
    ids=["all-two", "all-three", "first-two"],
)
def test_derivatives_are_those_of_one_device(losses, sizes):
    check_losses(losses, [[1.0, 0.3], [0.7, -0.5]], 0.02, sizes, moved=1e-4)


def by_hand(w, x, mean):
    difference = 2.0 * (x @ w - tf.reduce_sum(x, 1, keepdims=True))
    total = tf.matmul(x, difference, transpose_a=True)
    return total / tf.cast(tf.shape(x)[0], tf.float32) if mean else total / 20.0


def back_in_parts(w, x):
    rows = x @ w
    return tf.matmul(x, by(rows, lambda rows: tf.square(rows - x[:, :1])), transpose_a=True)


def of_signs(w, x):
    gradient = by(tf.sign(w), lambda signs: tf.square(x @ signs - x[:, :1]))
    return tf.clip_by_norm(gradient, 0.3)


def clipped(w, x):
    return tf.clip_by_norm(tf.gradients(tf.reduce_mean(tf.square(x @ w - x[:, :1])), w)[0], 0.3)


GIVEN = {
    "a mean by hand": lambda w, x: by_hand(w, x, mean=True),
    "a sum by hand": lambda w, x: by_hand(w, x, mean=False),
    "of a sum by tf.gradients": lambda w, x: tf.gradients(tf.reduce_sum(tf.square(x @ w)) / 20.0, w)[0],
    "clipped": clipped,
    "back in parts": back_in_parts,
    "by what weights were made into": of_signs,
}


@pytest.mark.parametrize("sizes", [(9, 7), (7, 0, 9)])
def test_gradients_that_no_tape_has_taken_by_variables(sizes):
    weights = [tf.Variable([[1.0], [-0.7]], name=name.replace(" ", "_")) for name in GIVEN]
    variables = [keras.Variable(w.numpy(), name=w.name[:-2]) for w in weights]
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(variables)
    held = [v.value for v in variables]

    def step(x):
        optimizer.apply([given(w, x) for given, w in zip(GIVEN.values(), held, strict=True)], variables)
        return tf.reduce_mean(x)

    ran = check(step, [[batch(16)], [batch(16, 1)]], sizes, *held)
    assert not ran.warnings
    assert all(np.abs(ran.variables[v.name[:-2]] - w.numpy()).max() > 1e-3 for v, w in zip(held, weights, strict=True))


MEETING = {
    "Sqrt": lambda w, x: penalty(by(x, lambda x: error(w, x), lambda rows: tf.sqrt(tf.reduce_mean(rows)))),
    "Roll": lambda w, x: penalty(tf.roll(by(x, lambda x: net(w, x)), 1, 0)),
    "RealDiv": lambda w, x: penalty((lambda g: g / tf.norm(g))(by(x, lambda x: net(w, x)))),
    "Sub": lambda w, x: penalty(by(x, lambda x: tf.square(net(w, x) - tf.reduce_mean(net(w, x))))),
}


def by_a_statistic(w, x):
    centre = tf.reduce_mean(net(w, x))
    with tf.GradientTape() as tape:
        tape.watch(centre)
        value = 3.0 * centre
    return tape.gradient(value, centre) * tf.reduce_mean(error(w, x))


MEETING["Mean"] = by_a_statistic


@pytest.mark.parametrize("op", MEETING)
def test_derivatives_in_which_examples_meet(op):
    w = tf.Variable([[1.0, 0.3], [2.0, -0.5]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = MEETING[op](w, x)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return value

    ran = check(step, [[batch(8)], [batch(8, 1)]], (3, 5), w)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - w.numpy()).max() > 1e-3
    warnings = single.run(step, [[batch(8)]], (4, 4), gradient_reduction="mean").warnings
    assert op == "Sqrt" or any(f"({op}) at" in text and "test_derivatives.py:" in text for text in warnings), warnings


def by_hessians(w, reduce):
    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.square(tf.hessians(reduce(net(w, x)), x)[0]))
        w.assign_sub(0.01 * tape.gradient(value, w))
        return value

    return step


def test_second_derivatives_in_a_loop_are_refused_of_a_mean():
    w = tf.Variable([[1.0, 0.3], [2.0, -0.5]], name="w")
    with pytest.raises(CaptureError, match="a gradient is taken inside control flow"):
        single.rewritten(by_hessians(w, tf.reduce_mean), [batch(8)], 2)


def test_second_derivatives_of_a_sum_in_a_loop_are_those_of_one_device():
    w = tf.Variable([[1.0, 0.3], [2.0, -0.5]], name="w")
    ran = check(by_hessians(w, tf.reduce_sum), [[batch(8)]], (5, 3), w)
    assert np.abs(ran.variables["w"] - w.numpy()).max() > 1e-4


def bent(w, x):
    return tf.tanh(x * w + 0.3)


def squares(w, x):
    return tf.reduce_sum(bent(w, x) ** 2, 1)


def statistics(w, x):
    """Numbers of the whole batch: means, functions of them, and a sum."""
    means = tf.reduce_mean(bent(w, x) ** 2, 0)
    return tf.concat([tf.sqrt(means), tf.reduce_mean(squares(w, x))[None], tf.reduce_sum(bent(w, x), 0)[:1]], 0)


def jacobian(source, values_of):
    with tf.GradientTape() as tape:
        tape.watch(source)
        values = values_of()
    return tape.jacobian(values, source)


def along(source, values_of):
    """The gradients of two weightings of the batch."""
    return tf.vectorized_map(lambda v: by(source, lambda _: values_of() * v[0] + v[1]), tf.eye(2))


JACOBIANS = {
    "means": lambda w, x: jacobian(w, lambda: tf.reduce_mean(bent(w, x), 0)),
    "sums": lambda w, x: jacobian(w, lambda: tf.reduce_sum(bent(w, x), 0)),
    "statistics": lambda w, x: jacobian(w, lambda: statistics(w, x)),
    "means by examples": lambda w, x: jacobian(x, lambda: tf.reduce_mean(bent(w, x), 0)),
    "sums by examples": lambda w, x: jacobian(x, lambda: tf.reduce_sum(bent(w, x), 0)),
    "statistics by examples": lambda w, x: jacobian(x, lambda: statistics(w, x)),
    "rows": lambda w, x: jacobian(w, lambda: squares(w, x)),
    "rows by examples": lambda w, x: jacobian(x, lambda: bent(w, x)),
    "gradient of a mean": lambda w, x: jacobian(w, lambda: by(w, lambda w: squares(w, x))),
    "gradient of a sum": lambda w, x: jacobian(w, lambda: by(w, lambda w: squares(w, x), SUM)),
    "weightings": lambda w, x: along(w, lambda: squares(w, x)),
    "weightings by examples": lambda w, x: along(x, lambda: squares(w, x)),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_of_what_is_computed_of_all_examples(name):
    """A step goes on with them (Newton's method), and returns them: nothing is differentiated afterwards."""
    w = tf.Variable([0.8, -0.4], name="w")

    def step(x):
        found = JACOBIANS[name](w, x)
        w.assign_sub(0.02 * by(w, lambda w: squares(w, x)) + 0.01 * tf.reduce_mean(found))
        return [found]

    ran = check(step, [[batch(9)], [batch(9, 1)]], (4, 0, 5), w)
    assert not ran.warnings


@pytest.mark.parametrize("parts", [(4, 0, 5), (4, 4)])
def test_a_jacobian_of_each_example_is_returned(parts):
    """Alone: what TensorFlow's loop gives has its turns along the first dim, and the batch along the second."""
    w = tf.Variable([[1.0, 0.3, 0.2], [0.7, -0.5, 0.1]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = tf.tanh(x @ w)
        w.assign_sub(0.02 * by(w, lambda w: tf.tanh(x @ w) ** 2))
        return [tape.batch_jacobian(values, x)]

    check(step, [[batch(sum(parts))], [batch(sum(parts), 1)]], parts, w)


@pytest.mark.parametrize("reduce", [MEAN, SUM], ids=["mean", "sum"])
def test_a_product_with_the_hessian_forward_over_backward(reduce):
    """The gradient itself is not used: forward differentiation asks it for its shape alone."""
    w = tf.Variable([[1.0, 0.3], [0.7, -0.5]], name="w")

    def step(x):
        with tf.autodiff.ForwardAccumulator(w, tf.ones_like(w)) as forward:
            gradient = by(w, lambda w: error(w, x), reduce)
        found = forward.jvp(gradient)
        w.assign_sub(0.02 * found)
        return [found]

    check(step, [[batch(9)], [batch(9, 1)]], (4, 0, 5), w)
