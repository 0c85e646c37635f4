"""Loops: each replica runs them on its own rows where examples stay apart in them, forward and backward."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.graph.layouts import Whole, plan_batch
from autodist.graph.layouts._shapes import _MANY as INFERRED
from tests.quick import combinations

from . import single
from .single import specs_of
from .test_replicate import check, trained

L = keras.layers
SIZES = (3, 4, 0, 1)
ROWS, TIMES, WIDTH = 8, 5, 4
START = np.random.default_rng(5).normal(size=(WIDTH, WIDTH)).astype(np.float32) / 2


def sequences(seed):
    return np.random.default_rng(seed).normal(size=(ROWS, TIMES, WIDTH)).astype(np.float32)


def squares(p):
    return tf.reduce_mean(tf.square(p - 0.5))


def contrastive(p):
    scores = tf.matmul(p, p, transpose_b=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(p)[0]), scores))


def recurrent(x, w):
    """A loop of the program's own, over steps of time."""
    state = tf.zeros([tf.shape(x)[0], WIDTH])
    for step in tf.range(TIMES):
        state = tf.tanh(x[:, step] + state @ w)
    return state


def collected(x, w):
    """One whose states are kept."""
    kept = tf.TensorArray(tf.float32, TIMES, element_shape=[None, WIDTH])
    state = x[:, 0]
    for step in tf.range(TIMES):
        state = tf.tanh(state @ w)
        kept = kept.write(step, state)
    return tf.reduce_sum(kept.stack(), 0)


def each_example(x, w):
    return tf.map_fn(lambda row: tf.reduce_mean(tf.tanh(row @ w), 0), x)


def chosen(x, w):
    return tf.cond(tf.reduce_sum(w) > 100.0, lambda: x[:, 0] @ w, lambda: tf.tanh(x[:, 1] @ w))


def met_inside(x, w):
    """A loop in which examples meet: all of it is computed whole."""
    state = tf.zeros([tf.shape(x)[0], WIDTH])
    for step in tf.range(TIMES):
        state = tf.tanh(x[:, step] + state @ w - tf.reduce_mean(state, 0))
    return state


def beside_weights(x, w):
    """A loop that also goes on with the weights: their gradient by that is no sum over examples."""
    state, power = x[:, 0], w
    for step in tf.range(3):
        state, power = tf.tanh(x[:, step] + state @ w), power @ w
    return state + tf.reduce_sum(power)


def as_long_as_needed(x, w):
    """One that ends when the largest of all examples is small."""
    state = tf.reduce_sum(x, 1)
    while tf.reduce_max(tf.abs(state)) > 1.0:
        state = 0.5 * state @ tf.tanh(w)
    return state


def beside_a_long_table(x, w):
    """One that changes something whole, which is as long as a batch by which shapes are inferred."""
    state, table = x[:, 0], tf.fill([INFERRED, WIDTH], 2.0)
    for step in tf.range(TIMES):
        state, table = tf.tanh(x[:, step] + state @ w), tf.tanh(table)
    return state * tf.reduce_sum(table) / 1e4


def reduced_inside(x, w):
    """A branch, and a loop, that give values of all examples, which are no sums of what replicas have."""
    mean = tf.cond(tf.reduce_sum(w) > 100.0, lambda: tf.reduce_sum(x @ w), lambda: tf.reduce_mean(tf.tanh(x[:, 1] @ w)))
    highest = tf.constant(0.0)
    for step in tf.range(TIMES):
        highest = tf.maximum(highest, tf.reduce_max(x[:, step] @ w))
    return (x[:, 0] @ w) * mean + highest


def highest_inside(x, w):
    """A branch that gives a value of all examples, by which nothing is differentiated."""
    return tf.cond(tf.reduce_sum(w) > 100.0, lambda: tf.reduce_sum(x), lambda: tf.reduce_max(x)) * x[:, 0] @ w


def lengths_of(x):
    """The number of steps of time of each example, and of the longest one of the batch; data decide both."""
    lengths = 1 + tf.reduce_sum(tf.cast(x[..., 0] > 0.4, tf.int32), 1)
    return lengths, tf.reduce_max(lengths)


def cut_to_the_longest(x, w):
    """A loop over the longest example's steps; the backward pass takes each step's shape from the shape of all."""
    lengths, longest = lengths_of(x)
    steps = tf.transpose((x @ w)[:, :longest], [1, 0, 2])
    masks = tf.transpose(tf.sequence_mask(lengths, longest))

    def turn(state, given):
        step, mask = given
        return tf.where(mask[:, None], tf.tanh(step + state @ w), state)

    return tf.foldl(turn, (steps, masks), tf.zeros([tf.shape(x)[0], WIDTH]))


def each_as_long_as_the_longest(x, w):
    """A loop whose steps have the longest example's length and the batch's as dims."""
    _, longest = lengths_of(x)
    steps = tf.transpose((x @ w)[:, :longest], [2, 0, 1])
    return tf.foldl(lambda state, step: tf.tanh(step + state), steps, tf.zeros([tf.shape(x)[0], longest]))


PROGRAMS = {
    "reduced inside": (reduced_inside, False),
    "highest inside": (highest_inside, False),
    "beside a long table": (beside_a_long_table, False),
    "recurrent": (recurrent, True),
    "collected": (collected, True),
    "each example": (each_example, True),
    "chosen": (chosen, True),
    "met inside": (met_inside, False),
    "beside weights": (beside_weights, False),
    "as long as needed": (as_long_as_needed, False),
}


def step_of(program, loss, w):
    def step(x):
        with tf.GradientTape() as tape:
            value = loss(program(x, w)) + tf.sqrt(tf.reduce_mean(tf.square(w)))
        w.assign_sub(0.1 * tape.gradient(value, w))
        return [value]

    return step


def loops_of(step, *arrays):
    """By loop and branch of a step, whether replicas compute it of their own rows."""
    graph = capture(step, specs_of(arrays), VariableNames()).graph
    plan, nodes = plan_batch(graph), graph.analysis.nodes
    flows = [name for name in plan.order if nodes[name].op in ("While", "StatelessWhile", "If", "StatelessIf")]
    return [any(not isinstance(layout, Whole) for way in plan.ways[n] for layout in way.inputs) for n in flows]


@combinations(name=PROGRAMS, loss=[pytest.param(loss, id=loss.__name__) for loss in (contrastive, squares)])
def test_loops_and_branches(name, loss):
    program, by_rows = PROGRAMS[name]
    w = tf.Variable(START, name="w")
    step = step_of(program, loss, w)
    ran = check(step, [[sequences(0)], [sequences(1)]], SIZES, w)
    assert not ran.warnings
    assert np.abs(ran.variables["w"] - START).max() > 1e-3
    found = loops_of(step, sequences(0))
    assert found
    assert all(found) is by_rows


@pytest.mark.parametrize(("program", "by_rows"), [(cut_to_the_longest, True), (each_as_long_as_the_longest, False)])
def test_lengths_that_data_decide(program, by_rows):
    w = tf.Variable(START, name="w")
    step = step_of(program, squares, w)
    check(step, [[sequences(0)], [sequences(1)]], SIZES, w)
    assert any(loops_of(step, sequences(0))) is by_rows


LAYERS = {
    "lstm": lambda: [L.Dropout(0.3, seed=1), L.LSTM(3)],
    "gru": lambda: [L.GaussianNoise(0.3, seed=1), L.GRU(3, return_sequences=True), L.SimpleRNN(3, go_backwards=True)],
    "masked": lambda: [L.Masking(0.0), L.Bidirectional(L.LSTM(3, dropout=0.3, recurrent_dropout=0.2, seed=1))],
}


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        pytest.param("lstm", squares, marks=pytest.mark.slow),
        ("lstm", contrastive),
        pytest.param("gru", contrastive, marks=pytest.mark.slow),
        pytest.param("masked", squares, marks=pytest.mark.slow),
    ],
)
def test_recurrent_layers_beside_random_numbers(name, loss):
    """Of any number of steps of time; what is drawn is as on one device."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((None, WIDTH)), *LAYERS[name](), L.Dense(2)])
    weights = model.trainable_variables

    def step(x):
        with tf.GradientTape() as tape:
            value = loss(model(x, training=True))
        for weight, gradient in zip(weights, tape.gradient(value, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return [value, *(weight + 0.0 for weight in weights)]

    x, y = sequences(0), sequences(1)
    x[:, 3:], y[1::2, 2:] = 0, 0  # what is masked
    expected, _ = trained(step, [[x], [y]], *(v.value for v in model.variables))
    ran = single.run(step, [[x], [y]], SIZES)
    assert not ran.warnings
    for one, other in zip(expected, ran.outputs, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)
    for weight, after in zip(weights, ran.outputs[-1][1:], strict=True):
        assert np.abs(after - weight.numpy()).max() > 1e-5
    assert all(loops_of(step, x))


def test_jacobians_of_a_replica_without_rows():
    """TensorFlow can't find the open dim of no elements."""
    w = tf.Variable(START, name="w")

    def step(x):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                p = tf.tanh(x @ w)
            loss = tf.reduce_mean(tf.square(p)) + tf.reduce_mean(tf.square(inner.batch_jacobian(p, x)))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    check(step, [[sequences(0)[:, 0]]], SIZES, w)
