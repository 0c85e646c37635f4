"""Several losses, several updates, second derivatives."""

import keras
import numpy as np
import tensorflow as tf

from ..data import WORDS, PlainModel, dense_batches, mean_squared, sparse_batches
from ._case import case, sgd, supervised


@case()
def adversarial(ad):
    """Two optimizers; the second forward pass reads the weights that the first has just updated."""
    critic, generator = PlainModel(), PlainModel()
    generator.variables[1] = tf.Variable(tf.ones([5, 6]) * 0.2, name="wide")
    generator.variables[2] = tf.Variable(tf.zeros([6]), name="wide_bias")
    one, two = keras.optimizers.SGD(0.1), keras.optimizers.Adam(0.01)
    one.build(critic.variables)
    two.build(generator.variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            real = mean_squared(y, critic(x)) + tf.reduce_mean(critic(generator(x)))
        one.apply(tape.gradient(real, critic.variables), critic.variables)
        with tf.GradientTape() as tape:
            fake = tf.reduce_mean(tf.square(critic(generator(x)) - 1.0))
        two.apply(tape.gradient(fake, generator.variables), generator.variables)
        return real, fake

    for x, y in dense_batches():
        step(x, y)


@case()
def two_updates_in_one_step(ad):
    """The second gradient is taken at the weights that the first update made."""
    model = PlainModel()

    @ad.function
    def step(x, y):
        losses = []
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = mean_squared(y, model(x))
            sgd(tape.gradient(loss, model.variables), model.variables)
            losses.append(loss)
        return losses

    for x, y in dense_batches():
        step(x, y)


@case()
def two_losses_shared_variables(ad):
    model = PlainModel()

    @ad.function
    def step(x, y):
        with tf.GradientTape() as one, tf.GradientTape() as two:
            predicted = model(x)
            first, second = mean_squared(y, predicted), tf.reduce_mean(tf.abs(predicted))
        ones, twos = one.gradient(first, model.variables), two.gradient(second, model.variables)
        sgd([a + 0.1 * b for a, b in zip(ones, twos, strict=True)], model.variables)
        return first, second

    for x, y in dense_batches():
        step(x, y)


@case()
def tied_weights(ad):
    """One table is looked up, and multiplies: its gradient has a sparse and a dense part."""
    table = tf.Variable(0.3 * np.random.default_rng(5).normal(size=(WORDS, 4)).astype(np.float32), name="tied")

    def forward(ids):
        rows = tf.nn.embedding_lookup(table, ids)
        return tf.reduce_sum(tf.matmul(tf.reduce_mean(rows, 1), table, transpose_b=True), 1, keepdims=True)

    supervised(ad, forward, sgd, sparse_batches(), variables=[table])


@case()
def gradient_penalty(ad):
    """A second derivative: the gradient by the inputs is a part of the loss."""
    model = PlainModel()

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                predicted = model(x)
            slopes = inner.gradient(predicted, x)
            loss = mean_squared(y, predicted) + tf.reduce_mean(tf.square(tf.norm(slopes, axis=1) - 1.0))
        sgd(tape.gradient(loss, model.variables), model.variables)
        return loss

    for x, y in dense_batches():
        step(x, y)


@case()
def inner_gradient(ad):
    """MAML: the loss is that of the weights after one inner step, which is differentiated as well."""
    model = PlainModel()

    @ad.function
    def step(x, y):
        first, last, bias = model.variables
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner_loss = mean_squared(y, model(x))
            one, two, three = inner.gradient(inner_loss, model.variables)
            adapted = tf.tanh(x @ (first - 0.1 * one)) @ (last - 0.1 * two) + bias - 0.1 * three
            loss = mean_squared(y, adapted)
        sgd(tape.gradient(loss, model.variables), model.variables)
        return inner_loss, loss

    for x, y in dense_batches():
        step(x, y)


@case()
def inner_gradient_sparse(ad):
    """First-order MAML: the inner gradient of a lookup is data to the outer loss."""
    model = PlainModel("lookup")

    @ad.function
    def step(x, y):
        table, last, bias = model.variables
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner_loss = mean_squared(y, model(x))
            slices = inner.gradient(inner_loss, table)
            moved = tf.math.unsorted_segment_sum(tf.stop_gradient(slices.values), slices.indices, WORDS)
            loss = mean_squared(y, tf.reshape(tf.gather(table - 0.1 * moved, x), [-1, 12]) @ last + bias)
        gradients = tape.gradient(loss, [last, bias])
        sgd(gradients, [last, bias])
        table.scatter_sub(tf.IndexedSlices(0.1 * slices.values, slices.indices))
        return loss

    for x, y in sparse_batches():
        step(x, y)
