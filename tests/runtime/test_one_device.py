"""On one device a scope trains whatever TensorFlow trains there without one, and finds the same."""

import contextlib
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist

X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
WORDS = tf.constant(["a", "b", "c", "b"] * 8)
TARGETS = np.tile([0.0, 1.0], 16).astype("float32")

pytestmark = pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")


class Plain:
    """What a program uses of AutoDist, without AutoDist."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)
    checkpoint = None


def batches(*tensors, **options):
    return tf.data.Dataset.from_tensor_slices(tensors).batch(8, **options)


def squared_error(x, y, weight):
    return tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))


class Linear:
    """A model with its optimizer: one weight, trained by its own step."""

    def __init__(self, shape=(4, 1)):
        self.weight = tf.Variable(tf.zeros(shape))
        self.optimizer = keras.optimizers.Adam(0.1)

    def update(self, loss_of):
        with tf.GradientTape() as tape:
            loss = loss_of(self.weight)
        self.optimizer.apply_gradients([(tape.gradient(loss, self.weight), self.weight)])
        return loss

    def train(self, step, dataset):
        losses = [np.asarray(step(*batch)) for batch in dataset]
        return [self.weight.numpy(), *losses]


def lookup_layer(ad):
    layers = [keras.layers.StringLookup(vocabulary=["a", "b"]), keras.layers.Embedding(3, 1)]
    model = keras.Sequential([keras.Input((), dtype="string"), *layers])
    model.compile("adam", "mse")
    history = model.fit(batches(WORDS, TARGETS), epochs=2, verbose=0).history["loss"]
    return [*model.get_weights(), history, model.evaluate(batches(WORDS, TARGETS), verbose=0)]


def lookup_table(ad):
    linear = Linear((3,))
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [0, 1]), 2)

    @tf.function
    def step(words, y):
        return linear.update(lambda weight: tf.reduce_mean((tf.gather(weight, table.lookup(words)) - y) ** 2))

    return linear.train(step, batches(WORDS, TARGETS))


def ragged_loop(ad):
    linear = Linear((4,))

    @ad.function
    def step(rows, y):
        def loss(weight):
            looked_up = tf.ragged.map_flat_values(lambda row: tf.gather(weight, row), rows)
            return tf.reduce_mean((tf.reduce_mean(looked_up, 1) - y) ** 2)

        return linear.update(loss)

    rows = tf.ragged.constant([[1, 2], [3], [1, 2, 3], [2]] * 8)
    return linear.train(step, ad.shard(batches(rows, TARGETS)))


def examples_without_batches(ad):
    linear = Linear((4,))

    @ad.function
    def step(x, y):
        return linear.update(lambda weight: (tf.tensordot(x, weight, 1) - y) ** 2)

    return linear.train(step, ad.shard(tf.data.Dataset.from_tensor_slices((X, Y[:, 0]))))


def sparse_fit(ad):
    model = keras.Sequential([keras.Input((4,), sparse=True), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(batches(tf.sparse.from_dense(X), Y), verbose=0)
    model.train_on_batch(tf.sparse.from_dense(X[:8]), Y[:8])
    return model.get_weights()


def tape_outside_of_functions(ad):
    linear = Linear()
    for x, y in ad.shard(batches(X, Y)):
        linear.update(lambda weight, x=x, y=y: squared_error(x, y, weight))
    return [linear.weight.numpy()]


def tape_around_a_function_with_a_gradient(ad):
    linear = Linear()

    @tf.function
    def looking_ahead(x, y):
        with tf.GradientTape() as tape:
            loss = squared_error(x, y, linear.weight)
        return squared_error(x, y, linear.weight - 0.1 * tape.gradient(loss, linear.weight))

    for x, y in batches(X, Y):
        linear.update(lambda weight, x=x, y=y: looking_ahead(x, y))
    return [linear.weight.numpy()]


def rows_counted_in_python(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        return linear.update(lambda weight: tf.reduce_sum((tf.matmul(x, weight) - y) ** 2) / x.shape[0])

    return linear.train(step, ad.shard(batches(X, Y)))


def rows_counted_in_python_or_not(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        count = x.shape[0] or 1
        return linear.update(lambda weight: tf.reduce_sum((tf.matmul(x, weight) - y) ** 2) / count)

    return linear.train(step, ad.shard(batches(X, Y)))


def rows_counted_by_a_model(ad):
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            rows, _ = x.shape
            return self.dense(x) * rows

    model = Model()
    model.compile("adam", "mse")
    model.fit(batches(X, Y, drop_remainder=True), verbose=0)
    return model.get_weights()


def a_whole_epoch(ad):
    linear = Linear()
    dataset = batches(X, Y)

    @ad.function
    def epoch():
        for x, y in dataset:
            linear.update(lambda weight, x=x, y=y: squared_error(x, y, weight))

    epoch()
    return [linear.weight.numpy()]


def an_iterator(ad):
    linear = Linear()

    @tf.function
    def step(iterator):
        x, y = next(iterator)
        return linear.update(lambda weight: squared_error(x, y, weight))

    iterator = iter(batches(X, Y))
    return linear.train(step, [(iterator,)] * 3)


def gradients_in_a_loop(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        for _ in tf.range(2):
            linear.update(lambda weight: squared_error(x, y, weight))

    return linear.train(step, ad.shard(batches(X, Y)))[:1]


def functions_run_eagerly(ad):
    linear, seen = Linear(), []

    @tf.function
    def step(x, y):
        loss = linear.update(lambda weight: squared_error(x, y, weight))
        seen.append(float(loss))  # a number only if it runs eagerly
        return loss

    tf.config.run_functions_eagerly(True)
    try:
        return [*linear.train(step, batches(X, Y)), seen]
    finally:
        tf.config.run_functions_eagerly(False)


def captured_and_plain_steps(ad):
    linear = Linear()

    @ad.function
    def step(x, y):
        dense = tf.sparse.to_dense(x) if isinstance(x, tf.SparseTensor) else x
        return linear.update(lambda weight: squared_error(dense, y, weight))

    losses = []
    for x, y in batches(X, Y):
        losses += [step(x, y).numpy(), step(tf.sparse.from_dense(x), y).numpy()]
    return [linear.weight.numpy(), *losses, [v.numpy() for v in linear.optimizer.variables][1:]]


PROGRAMS = [
    lookup_layer, lookup_table, ragged_loop, examples_without_batches, sparse_fit, tape_outside_of_functions,
    tape_around_a_function_with_a_gradient, rows_counted_in_python, rows_counted_in_python_or_not,
    rows_counted_by_a_model, a_whole_epoch, an_iterator, gradients_in_a_loop, functions_run_eagerly,
    captured_and_plain_steps,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_trains_as_without_a_scope(program):
    def found(distributed):
        keras.utils.set_random_seed(1)
        with autodist.scope() if distributed else contextlib.nullcontext(Plain) as ad:
            return [np.asarray(value) for values in program(ad) for value in _listed(values)]

    expected, got = found(False), found(True)
    assert any(np.abs(value).max() > 0.05 for value in expected), "nothing was trained"
    assert len(expected) == len(got)
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-7)


def _listed(values):
    return values if isinstance(values, list) else [values]


def test_says_once_why_a_step_is_not_captured(caplog):
    with caplog.at_level(logging.INFO, "autodist"), autodist.scope() as ad:
        rows_counted_in_python(ad)
        tape_around_a_function_with_a_gradient(ad)
    said = [record.message for record in caplog.records if "is not captured" in record.message]
    assert len(said) == 1, said
    assert said[0].startswith("`step` runs on this one device as TensorFlow runs it")


def test_a_checkpoint_of_steps_that_are_not_captured(tmp_path):
    def loop(until):
        linear = Linear()
        linear.optimizer.build([linear.weight])

        @autodist.function
        def step(x, y):
            return linear.update(lambda weight: tf.reduce_sum((tf.matmul(x, weight) - y) ** 2) / x.shape[0])

        with autodist.scope() as ad:
            saved = ad.checkpoint(tmp_path, every_steps=1, weight=linear.weight, optimizer=linear.optimizer)
            for number, batch in saved.steps(ad.shard(batches(X, Y))):
                step(*batch)
                if number == until:
                    break
        return linear.weight.numpy()

    interrupted = loop(until=1)
    finished = loop(until=None)
    assert np.abs(finished - interrupted).max() > 0.05
    np.testing.assert_allclose(finished, rows_counted_in_python(Plain)[0], rtol=1e-5)
