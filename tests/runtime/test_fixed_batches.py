"""Steps that only a whole batch can go through: replicas share them rightly, as far as their batch is known.

Where replicas have losses of their own, such steps are refused before they run, by line, with remedies that work.
"""

import contextlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.errors import CaptureError
from tests.quick import slow_but

from .programs import TWO

ROWS = 16
X = np.random.default_rng(0).normal(size=(2 * ROWS, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
LABELS = np.random.default_rng(1).integers(0, ROWS, 2 * ROWS)
CLASS_WEIGHTS = np.linspace(1, 3, ROWS).astype("float32")
ADJACENCY = (np.random.default_rng(2).random((ROWS, ROWS)) < 0.3).astype("float32")
EDGES = np.random.default_rng(3).integers(0, ROWS, (ROWS, 2))

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")


class Plain:
    """What a program uses of AutoDist, without AutoDist."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)


class Linear:
    def __init__(self, *shape):
        self.weight = tf.Variable(tf.fill(shape, 0.1), name="weight")
        self.optimizer = keras.optimizers.Adam(0.1)

    def train(self, loss_of, *others):
        variables = [self.weight, *others]
        with tf.GradientTape() as tape:
            loss = loss_of(self.weight)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss


def batches(*tensors):
    return tf.data.Dataset.from_tensor_slices(tensors).batch(ROWS)


def squared_error(x, y, weight):
    return tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))


def loop(ad, loss):
    """Train by a loss of x, y and the weight."""
    linear = Linear(4, 1)

    @ad.function
    def step(x, y):
        return linear.train(lambda weight: loss(x, y, weight))

    losses = [float(step(x, y)) for x, y in ad.shard(batches(X, Y))]
    return [linear.weight.numpy(), losses]


def cross_entropy(x, label, weight):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(label, tf.matmul(x, weight))


def class_weights(ad, pick):
    linear = Linear(4, ROWS)

    @ad.function
    def step(x, label, weights):
        return linear.train(lambda w: tf.reduce_mean(pick(weights, label) * cross_entropy(x, label, w)))

    losses = [step(x, label, CLASS_WEIGHTS) for x, label in batches(X, LABELS)]
    return [linear.weight.numpy(), losses]


def graph_convolution(ad):
    linear = Linear(4, 1)

    @ad.function
    def step(adjacency, x, y):
        return linear.train(lambda weight: squared_error(tf.matmul(adjacency, x), y, weight))

    return [[step(ADJACENCY, X[:ROWS], Y[:ROWS]) for _ in range(3)], linear.weight.numpy()]


def graph_convolution_of_edges(ad):
    linear = Linear(4, 1)

    @ad.function
    def step(edges, x, y):
        return linear.train(lambda weight: squared_error(tf.gather(x * 2, edges[:, 0]), y, weight))

    return [[step(EDGES, X[:ROWS], Y[:ROWS]) for _ in range(3)], linear.weight.numpy()]


def graph_network(batch_shape):
    adjacency, x = keras.Input((*batch_shape, ROWS)), keras.Input((*batch_shape, 4))
    hidden = keras.ops.matmul(adjacency, keras.layers.Dense(3)(x))
    model = keras.Model([adjacency, x], keras.layers.Dense(1)(hidden))
    model.compile("adam", "mse")
    return model


def graph_network_in_fit(ad):
    model = graph_network(())
    model.fit([ADJACENCY, X[:ROWS]], Y[:ROWS], batch_size=ROWS, epochs=3, shuffle=False, verbose=0)
    return model.get_weights()


def recurrent(**options):
    layers = [keras.Input((4, 1), batch_size=ROWS), keras.layers.LSTM(2, stateful=True, **options)]
    return keras.Sequential([*layers, keras.layers.Dense(1)])


def stateful_in_fit(ad):
    model = recurrent()
    model.compile("adam", "mse")
    model.fit(X[:, :, None], Y, batch_size=ROWS, epochs=2, shuffle=False, verbose=0)
    return [v.numpy() for v in model.variables]


def stateful_in_a_loop(ad):
    model, optimizer = recurrent(unroll=True), keras.optimizers.Adam()

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [step(*batch) for batch in ad.shard(batches(X[:, :, None], Y))]
    return [losses, *(v.numpy() for v in model.variables)]


def weight_of_each_row(ad):
    linear, offsets = Linear(4, 1), tf.Variable(tf.zeros((ROWS, 1)), name="offsets")

    @ad.function
    def step(x, y):
        return linear.train(lambda weight: squared_error(x, y - offsets, weight), offsets)

    return [[step(X[:ROWS], Y[:ROWS]) for _ in range(3)], linear.weight.numpy(), offsets.numpy()]


def told_shape(x):
    x = tf.identity(x)
    x.set_shape([ROWS, 4])
    return x


def decayed(x):
    state = tf.zeros([ROWS, 4])
    for _ in tf.range(3):
        state = 0.5 * state + x
    return state


LOSSES = {
    "set_shape": lambda x, y, w: squared_error(told_shape(x), y, w),
    "ensure_shape": lambda x, y, w: squared_error(tf.ensure_shape(x, [ROWS, 4]), y, w),
    "reshape": lambda x, y, w: squared_error(tf.reshape(x, [ROWS, 2, 2])[:, 0], y, w[:2]),
    "reshape_that_fits": lambda x, y, w: squared_error(x, y, w) + tf.reduce_max(tf.reshape(x * w[0], [ROWS, -1])),
    "constant": lambda x, y, w: squared_error(x + tf.zeros([ROWS, 1]), y, w),
    "state_of_a_loop": lambda x, y, w: squared_error(decayed(x), y, w),
    "rows_by_number": lambda x, y, w: squared_error(tf.gather(x, tf.range(ROWS)), y, w),
}

ASKING = {
    "quotient": lambda x, y, w: tf.reduce_sum(tf.square(tf.matmul(x, w) - y)) / x.shape[0],
    "zeros": lambda x, y, w: squared_error(x + tf.zeros(x.shape), y, w),
    "asked_reshape": lambda x, y, w: squared_error(tf.reshape(x, [x.shape[0], 4]), y, w),
    "each_row": lambda x, y, w: tf.add_n([(k + 1) * squared_error(x[k : k + 1], y[k], w) for k in range(x.shape[0])]),
}

REFUSED = {
    stateful_in_fit: ("variable `[^`]*rnn_state` has 16 rows too", "initial_state"),
    stateful_in_a_loop: ("variable `[^`]*rnn_state` has 16 rows too", "initial_state"),
    weight_of_each_row: ("variable `offsets` has 16 rows too", "tf.gather"),
    graph_convolution: ("argument 0 has the number of the batch's rows in another dim too", "adjacency\\[None\\]"),
    graph_convolution_of_edges: ("by the numbers in argument 0", "adjacency\\[None\\]"),
    graph_network_in_fit: ("`x\\[0\\]` has the number of the batch's rows in another dim too", "adjacency\\[None\\]"),
}


def found(program, distributed):
    keras.utils.set_random_seed(1)
    with autodist.scope(**TWO) if distributed else contextlib.nullcontext(Plain) as ad:
        return [np.asarray(value) for value in program(ad)]


def check_is_of_one_device(program):
    for one, other in zip(found(program, False), found(program, True), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


def refusal(program):
    """That where replicas have losses of their own."""
    keras.utils.set_random_seed(1)
    with pytest.raises(CaptureError) as caught, autodist.scope(**TWO, gradient_reduction="mean") as ad:
        program(ad)
    assert re.search(rf"{re.escape(__file__)}:\d+", caught.value.message), "which line is not said"
    return caught.value


@pytest.mark.parametrize(
    "program",
    slow_but(REFUSED.keys() - {graph_convolution_of_edges}, REFUSED),
    ids=lambda program: program.__name__,
)
def test_what_needs_the_whole_batch_trains_as_on_one_device(program):
    check_is_of_one_device(program)


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_what_needs_the_whole_batch_is_refused(program):
    error, (fact, remedy) = refusal(program), REFUSED[program]
    assert re.search(fact, error.message), error
    assert re.search(remedy, error.hint), error


@pytest.mark.parametrize(
    "losses",
    [pytest.param(LOSSES, id="in_constants"), pytest.param(ASKING, id="asked_for", marks=pytest.mark.slow)],
)
def test_numbers_of_rows_in_the_program_are_those_of_the_whole_batch(losses):
    """All in one step, each of a weight of its own."""

    def program(ad):
        each = {name: Linear(4, 1) for name in losses}

        @ad.function
        def step(x, y):
            return [linear.train(lambda weight, name=name: losses[name](x, y, weight)) for name, linear in each.items()]

        found = [step(x, y) for x, y in ad.shard(batches(X, Y))]
        return [*(linear.weight.numpy() for linear in each.values()), *found]

    check_is_of_one_device(program)


@pytest.mark.parametrize("name", LOSSES)
def test_numbers_of_rows_in_the_program_are_refused(name):
    error = refusal(lambda ad: loop(ad, LOSSES[name]))
    assert "16" in error.message, error
    assert "tf.shape(x)[0]" in error.hint


@pytest.mark.parametrize(
    "pick",
    [tf.gather, lambda weights, label: tf.reduce_sum(weights * tf.one_hot(label, ROWS), axis=1)],
    ids=["gather", "one_hot"],
)
def test_class_weights_may_be_as_many_as_rows(pick):
    check_is_of_one_device(lambda ad: class_weights(ad, pick))
    error = refusal(lambda ad: class_weights(ad, pick))
    assert "argument 2" in error.message
    assert "outside of the step" in error.hint


@pytest.mark.parametrize("name", ASKING)
def test_python_code_that_asks_for_the_number_of_rows_is_refused(name):
    assert "tf.shape(x)[0]" in refusal(lambda ad: loop(ad, ASKING[name])).hint


def test_an_error_of_the_program_stays_its_own():
    def loss(x, y, weight):
        raise ValueError(f"not for {len(x.shape)} dims")

    with pytest.raises(ValueError, match="not for 2 dims") as caught, autodist.scope(**TWO) as ad:
        loop(ad, loss)
    assert not isinstance(caught.value, CaptureError)


# Remedies --------------------------------------------------------------------------------------------------------


def rows_counted(ad):
    def loss(x, y, weight):
        rows = tf.shape(x)[0]
        x = tf.ensure_shape(tf.reshape(x, [-1, 2, 2]), [None, 2, 2])
        x = tf.reshape(x, [rows, 4]) + tf.zeros([rows, 1])
        x.set_shape([None, 4])
        return tf.reduce_sum(tf.square(tf.matmul(x, weight) - y)) / tf.cast(rows, tf.float32)

    return loop(ad, loss)


def class_weights_from_outside(ad):
    linear, weights = Linear(4, ROWS), tf.constant(CLASS_WEIGHTS)

    @ad.function
    def step(x, label):
        return linear.train(lambda w: tf.reduce_mean(tf.gather(weights, label) * cross_entropy(x, label, w)))

    losses = [float(step(*batch)) for batch in ad.shard(batches(X, LABELS))]
    return [linear.weight.numpy(), losses]


def a_batch_of_one_graph(ad):
    linear = Linear(4, 1)

    @ad.function
    def step(adjacency, x, y):
        return linear.train(lambda weight: squared_error(tf.matmul(adjacency, x), y, weight))

    losses = [float(step(ADJACENCY[None], X[None, :ROWS], Y[None, :ROWS])) for _ in range(3)]
    return [linear.weight.numpy(), losses]


def a_batch_of_one_graph_in_fit(ad):
    model = graph_network((ROWS,))
    data = [ADJACENCY[None], X[None, :ROWS]], Y[None, :ROWS]
    history = model.fit(*data, batch_size=1, epochs=3, shuffle=False, verbose=0).history["loss"]
    return [*model.get_weights(), history]


def a_state_that_is_returned(ad):
    cell, dense = keras.layers.LSTM(2, return_state=True), keras.layers.Dense(1)
    optimizer = keras.optimizers.Adam(0.05)

    @ad.function
    def step(x, y, memory, carry):
        with tf.GradientTape() as tape:
            output, memory, carry = cell(x, initial_state=[memory, carry])
            loss = tf.reduce_mean(tf.square(dense(output) - y))
        variables = cell.trainable_variables + dense.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss, memory, carry

    states = np.zeros((2, ROWS, 2), "float32")
    losses = []
    for x, y in batches(X[:, :, None], Y):
        loss, *states = step(x, y, *states)
        losses.append(float(loss))
    return [*(v.numpy() for v in cell.trainable_variables), losses, *states]


def weights_looked_up(ad):
    linear, offsets = Linear(4, 1), tf.Variable(tf.zeros((ROWS, 1)), name="offsets")

    @ad.function
    def step(x, y, numbers):
        def loss(weight):
            return squared_error(x, y - tf.gather(offsets, numbers), weight)

        return linear.train(loss, offsets)

    losses = [float(step(X[:ROWS], Y[:ROWS], np.arange(ROWS))) for _ in range(3)]
    return [linear.weight.numpy(), offsets.numpy(), losses]


REMEDIES = [
    rows_counted, class_weights_from_outside, a_batch_of_one_graph,
    pytest.param(a_batch_of_one_graph_in_fit, marks=pytest.mark.slow), a_state_that_is_returned, weights_looked_up,
]  # fmt: skip


@pytest.mark.parametrize("program", REMEDIES, ids=lambda program: program.__name__)
def test_the_remedies_train_as_one_device_does(program):
    check_is_of_one_device(program)
