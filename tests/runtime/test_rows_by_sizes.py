"""Rows of a table whose numbers come from sizes, as positions of words do, are the same for all examples.

Adam squares the gradient of each row. A row that each replica strings together with those of others, instead of adding
them up, is another step by that.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from .programs import adam, assert_same

STRATEGIES = ("AllReduce", "PSLoadBalancing", "PartitionedPS", "PartitionedAR", "Parallax")
WORDS, LENGTH = 30, 7


def by_size(x):
    return tf.range(tf.shape(x)[-1])


def beginning_later(x):
    return tf.range(2, tf.shape(x)[1])


def by_half(x):
    return tf.range(tf.shape(x)[1] // 2) * 2


def repeated(x):
    return tf.concat([tf.range(tf.shape(x)[1]), tf.range(tf.shape(x)[1])], 0)[: tf.shape(x)[1]]


class Positions(keras.layers.Layer):
    def __init__(self, numbers):
        super().__init__()
        self.positions, self.words = keras.layers.Embedding(20, 8), keras.layers.Embedding(WORDS, 8)
        self.numbers = numbers

    def call(self, x):
        moved = tf.reduce_mean(self.positions(self.numbers(x)), 0)
        return tf.tanh(self.words(x) + moved)


def program(numbers):
    random = np.random.default_rng(0)
    x, y = random.integers(0, WORDS, (33, LENGTH)), random.integers(0, 2, 33)

    def run(scope):
        with scope():
            given = keras.Input((LENGTH,), dtype="int64")
            pooled = keras.layers.GlobalAveragePooling1D()(Positions(numbers)(given))
            model = keras.Model(given, keras.layers.Dense(1, activation="sigmoid")(pooled))
            model.compile(adam(), "binary_crossentropy")
            model.fit(x, y, batch_size=10, epochs=2, verbose=0, shuffle=False)
        return model.get_weights()

    return run


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_numbers_that_are_sizes_are_those_of_all_examples(strategy):
    assert_same(program(by_size), strategy=strategy)


@pytest.mark.parametrize("numbers", [beginning_later, by_half, repeated])
def test_numbers_computed_of_sizes_are_so(numbers):
    assert_same(program(numbers), strategy="AllReduce")


def spread(x):
    """The same numbers, once for each example of the batch."""
    return tf.broadcast_to(tf.range(tf.shape(x)[1])[None], tf.shape(x))


@pytest.mark.parametrize("numbers", [by_size, spread])
def test_numbers_by_size_where_examples_meet(numbers):
    """In-batch negatives: replicas share the batch tensor by tensor."""
    x = np.random.default_rng(0).integers(0, WORDS, (33, LENGTH))

    def run(scope):
        with scope():
            given = keras.Input((LENGTH,), dtype="int64")
            pooled = keras.layers.GlobalAveragePooling1D()(Positions(numbers)(given))
            model, optimizer = keras.Model(given, keras.layers.Dense(4)(pooled)), adam()

            @tf.function
            def step(x):
                with tf.GradientTape() as tape:
                    found = model(x)
                    own, likeness = tf.range(tf.shape(x)[0]), tf.matmul(found, found, transpose_b=True)
                    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(own, likeness))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                return loss

            losses = [float(step(x[k : k + 8])) for k in range(0, 33, 8)]
        return losses, model.get_weights()

    assert_same(run, strategy="AllReduce")
