"""Variables, constants and arguments of all kinds."""

import keras
import numpy as np
import tensorflow as tf

from ..data import WORDS, PlainModel, dense_batches, keras_model, mean_squared, sparse_batches
from ._case import case, sgd, supervised


@case()
def unused_variable(ad):
    """A variable without gradient among those with one."""
    model = PlainModel()
    unused = tf.Variable([1.0, 2.0], name="unused")

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        gradients = tape.gradient(loss, {"model": model.variables, "unused": unused})
        assert gradients["unused"] is None
        sgd(gradients["model"], model.variables)
        return loss, tf.reduce_sum(unused)

    for x, y in dense_batches():
        step(x, y)


@case()
def frozen_part(ad):
    model = keras_model()
    model.layers[0].trainable = False
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
    supervised(ad, model, optimizer.apply)


def with_positions(ad, rows):
    """Words and their positions; Adagrad squares what it gets, so it shows how often a row came."""
    words = PlainModel("lookup").variables[0]
    positions = tf.Variable(0.1 * np.arange(20, dtype=np.float32).reshape(5, 4), name="positions")
    optimizer = keras.optimizers.Adagrad(0.1)
    optimizer.build([words, positions])

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            embedded = tf.nn.embedding_lookup(words, x) + tf.nn.embedding_lookup(positions, rows(x))
            loss = mean_squared(y, tf.reduce_sum(tf.tanh(embedded), [1, 2])[:, None])
        optimizer.apply(tape.gradient(loss, [words, positions]), [words, positions])
        return loss

    for x, y in sparse_batches():
        step(x, y)


@case()
def rows_of_no_batch(ad):
    """Rows that are the same for all examples, as positions of words are."""
    with_positions(ad, lambda _: tf.range(3))


@case()
def rows_from_a_variable(ad):
    """The same, but not known when the step is traced."""
    chosen = tf.Variable([4, 0, 2], trainable=False, name="chosen")
    with_positions(ad, lambda _: tf.convert_to_tensor(chosen))


@case()
def rows_of_sizes(ad):
    """The same, by the length of the examples."""
    with_positions(ad, lambda x: tf.range(tf.shape(x)[-1]))


@case()
def rows_of_a_cast_table(ad):
    """A table that is kept in one precision and looked up in another."""
    model = PlainModel("lookup")
    table, last, bias = model.variables

    def predicted(ids):
        rows = tf.gather(tf.cast(table, tf.float64), ids)
        return tf.cast(tf.reshape(rows, [-1, 12]), tf.float32) @ last + bias

    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.variables)
    supervised(ad, predicted, optimizer.apply, sparse_batches(), variables=model.variables)


@case()
def double_precision(ad):
    supervised(ad, PlainModel(dtype=np.float64), sgd, dense_batches(dtype=np.float64))


@case()
def nested_sources(ad):
    """Gradients by a nested structure of Keras' variables."""
    model = keras_model()
    kernel, bias, *rest = model.trainable_variables

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        gradients = tape.gradient(loss, {"first": (kernel.value, bias.value), "rest": [v.value for v in rest]})
        sgd([*gradients["first"], *gradients["rest"]], [kernel, bias, *rest])
        return loss

    for x, y in dense_batches():
        step(x, y)


@case()
def user_state(ad):
    """Variables that the user assigns: sums and means over the batch, and counters."""
    model = PlainModel()
    total, mean = tf.Variable(0.0, name="total"), tf.Variable(0.0, name="mean")
    seen, steps = tf.Variable(0, name="seen"), tf.Variable(0, name="steps", dtype=tf.int64)
    moving = tf.Variable(tf.zeros([6]), name="moving")

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(x))
        sgd(tape.gradient(loss, model.variables), model.variables)
        total.assign_add(tf.reduce_sum(x))
        mean.assign_add(tf.reduce_mean(y))
        moving.assign(0.9 * moving + 0.1 * tf.reduce_mean(x, 0))
        seen.assign_add(tf.shape(x)[0])
        steps.assign_add(1)
        return loss, total.read_value(), tf.cast(seen, tf.float32) / tf.cast(steps, tf.float32)

    for x, y in dense_batches():
        step(x, y)


@case()
def captured_constants(ad):
    """Arrays and tensors of the program that the step closes over, one of them large."""
    model = PlainModel()
    random = np.random.default_rng(4)
    projection = tf.constant(random.normal(size=(6, 600)).astype(np.float32))
    back = random.normal(size=(600, 6)).astype(np.float32) / 600
    supervised(ad, lambda x: model(x @ projection @ back), sgd, variables=model.variables)


@case()
def text_input(ad):
    """A string argument; words are told apart by a hash."""
    _on_text(ad, lambda loss, x: loss)


@case()
def text_output(ad):
    """Strings among what the step returns, one for each example."""
    _on_text(ad, lambda loss, x: (loss, tf.strings.upper(x)))


def _on_text(ad, outputs):
    model = PlainModel("lookup")

    @ad.function
    def step(x, y):
        ids = tf.strings.to_hash_bucket_fast(x, WORDS)
        with tf.GradientTape() as tape:
            loss = mean_squared(y, model(ids))
        gradients = tape.gradient(loss, model.variables)
        model.variables[0].scatter_sub(tf.IndexedSlices(0.1 * gradients[0].values, gradients[0].indices))
        sgd(gradients[1:], model.variables[1:])
        return outputs(loss, x)

    for x, y in sparse_batches():
        step(np.char.add("word", x.astype(str)).astype(object), y)
