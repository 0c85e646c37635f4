from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from graph.expressions import expressions
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import VariableNames, capture
from autodist.kernels import warnings_of

from . import single


def batch(size, seed=0, width=2):
    return np.random.default_rng(seed).normal(size=(size, width)).astype(np.float32)


def trained(step, batches, *variables):
    """What one device makes of it: outputs, and the variables' values, which are then put back."""
    before = [v.numpy() for v in variables]
    compiled = tf.function(step)
    outputs = [tf.nest.flatten(compiled(*map(tf.constant, arrays))) for arrays in batches]
    after = {v.name[:-2]: v.numpy() for v in variables}
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    return [[np.asarray(value) for value in row] for row in outputs], after


def check(step, batches, sizes, *variables, tolerance=1e-5, **options):
    outputs, values = trained(step, batches, *variables)
    ran = single.run(step, batches, sizes, **options)
    for expected, found in zip(outputs, ran.outputs, strict=True):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * max(1.0, np.abs(a).max(initial=0)))
    for name, value in values.items():
        np.testing.assert_allclose(ran.variables[name], value, rtol=tolerance, atol=tolerance)
    return ran


def check_losses(losses, start, rate, sizes, *, moved):
    """Check losses of weights and a batch, all in one step, each with a variable of its own, which must have moved."""
    weights = {name: tf.Variable(start, name=name.replace(" ", "_")) for name in losses}

    def step(x):
        values = []
        for name, w in weights.items():
            with tf.GradientTape() as tape:
                value = losses[name](w, x)
            w.assign_sub(rate * tape.gradient(value, w))
            values.append(value)
        return values

    ran = check(step, [[batch(16)], [batch(16, 1)]], sizes, *weights.values())
    assert not ran.warnings
    for name, w in weights.items():
        assert np.abs(ran.variables[w.name[:-2]] - w.numpy()).max() > moved, name


SIZES = st.lists(st.integers(0, 4), min_size=2, max_size=4).filter(lambda sizes: sizes[0] > 0)


@settings(max_examples=15, deadline=None)
@given(expressions(), SIZES, st.integers(0, 2**16))
def test_expressions_equal_those_of_the_whole_batch(step, sizes, seed):
    x = batch(sum(sizes), seed)
    outputs, _ = trained(step, [[x]])
    ran = single.run(step, [[x]], sizes)
    assert not ran.warnings
    for expected, found in zip(outputs[0], ran.outputs[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-4, err_msg=step.__doc__)


@settings(max_examples=10, deadline=None)
@given(SIZES, st.integers(0, 2**16), st.booleans())
def test_training_equals_one_device_however_the_batch_is_split(sizes, seed, sparse):
    w = tf.Variable(batch(5, 3), name="w")

    def step(x, ids):
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(w, ids) if sparse else x @ w[:2]
            loss = tf.reduce_mean(tf.square(rows - x))
        gradient = tape.gradient(loss, w)
        w.assign_sub(
            0.1 * tf.convert_to_tensor(gradient)
            if not sparse
            else 0.1 * tf.math.unsorted_segment_sum(gradient.values, gradient.indices, 5)
        )
        return loss

    random = np.random.default_rng(seed)
    arrays = [batch(sum(sizes), seed), random.integers(5, size=sum(sizes)).astype(np.int32)]
    check(step, [arrays, arrays], sizes, w)


LOSSES = {
    "mean": lambda e: tf.reduce_mean(e),
    "sum": lambda e: tf.reduce_sum(e) / 10.0,
    "by_hand": lambda e: tf.reduce_sum(e) / tf.cast(tf.shape(e)[0], tf.float32),
    "negative": lambda e: -tf.reduce_sum(e) / 10.0,
}


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_loss_says_how_gradients_combine(loss):
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = LOSSES[loss](tf.square(x @ w - 1.0)) + 0.05 * tf.reduce_sum(w)
        w.assign_sub(0.1 * tape.gradient(value, w))
        return w.read_value()

    assert not check(step, [[batch(7)], [batch(7, 1)]], (4, 3, 0), w).warnings


def test_the_loss_is_known_inside_nested_functions():
    w = tf.Variable([[1.0], [2.0]], name="w")

    @tf.function
    def gradient_of(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(tf.square(x @ w - 1.0)) / 10.0
        return value, tape.gradient(value, w)

    def step(x):
        value, gradient = tf.function(lambda x: gradient_of(x))(x)
        w.assign_sub(gradient)
        return value

    check(step, [[batch(6)]], (4, 2), w)


def test_a_loss_that_is_neither_sum_nor_mean_is_that_of_one_device():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.sqrt(tf.reduce_mean(tf.square(x @ w)), name="root_loss")
        w.assign_sub(tape.gradient(value, w))
        return value

    assert not check(step, [[batch(4)], [batch(4, 1)]], (1, 3), w).warnings
    # Who says how gradients combine has them combined like that.
    averaged = single.run(step, [[batch(4)]], (2, 2), gradient_reduction="mean")
    assert not averaged.warnings
    assert np.abs(averaged.variables["w"] - check(step, [[batch(4)]], (2, 2), w).variables["w"]).max() > 1e-3


def test_the_caller_can_say_how_gradients_combine():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(x @ w)
        gradient = tape.gradient(value, w)
        w.assign_sub(gradient)
        return gradient

    (mean,), (total,) = (
        single.run(step, [[batch(4)]], (2, 2), gradient_reduction=kind).outputs[0] for kind in ("mean", "sum")
    )
    np.testing.assert_allclose(total, 2 * mean, rtol=1e-6)


def test_strings_of_all_examples_are_those_of_one_device():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        texts = tf.strings.reduce_join(tf.as_string(x @ w), name="all_texts")
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(value, w))
        return texts

    expected = "".join(tf.as_string(batch(4) @ w).numpy().ravel().astype(str))
    ran = single.run(step, [[batch(4)]], (2, 2))
    assert not ran.warnings
    assert ran.outputs[0][0].decode() == expected


def test_what_a_large_gathering_is_for_is_told():
    w = tf.Variable(tf.ones([4, 1000]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            rows = x @ w
            value = tf.reduce_mean(rows**2)
        w.assign_sub(tape.gradient(value, w))
        return value, tf.reverse(rows, [0], name="last_first")[0]

    graph = capture(step, [tf.TensorSpec([8, 4])], VariableNames()).graph
    assert not warnings_of(replace(graph, batch_size=1000)), "4 MB are not much"
    (warning,) = warnings_of(replace(graph, batch_size=2000))
    assert "test_replicate.py" in warning
    assert "is gathered from all replicas in each step, 8 MB, because a value of the whole batch" in warning


def test_one_replica_changes_nothing():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(value, w))
        return value

    captured, graph = single.rewritten(step, [batch(4)], 1)
    assert graph.points == ()
    assert len(graph.graph_def.node) <= len(captured.graph.graph_def.node)


def test_a_read_after_an_update_stays_after_it():
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        before = tf.reduce_sum(w)
        with tf.GradientTape() as tape:
            value = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(value, w))
        return before, tf.reduce_sum(w), tf.reduce_mean(x @ w)

    check(step, [[batch(5)], [batch(5, 1)]], (2, 2, 1), w)
