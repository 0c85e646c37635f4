"""Trains with sufficient factors: `factored.py CASE [--to server] [--communicator C]`."""

import argparse
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from kernels.factored import Factored

import autodist
from certify.data import Case, PlainModel, dense_batches, mean_squared

SIZES = (8, 8, 5, 1)
"""Of the batches: even, and such that replicas get unequal parts or none."""

Dense, L2 = keras.layers.Dense, keras.regularizers.L2


def sequences(length=3, width=4):
    """(x, y) of examples that are sequences."""
    random = np.random.default_rng(5)
    for size in SIZES:
        x = random.normal(size=(size, length, width)).astype(np.float32)
        yield x, 1 + np.tanh(x.sum(2, keepdims=True))


def fit(ad):
    """Keras' own loop, with a regularizer, weight decay, clipping and Adam's slots."""
    model = keras.Sequential(
        [keras.Input([6]), Dense(5, "tanh", kernel_regularizer=L2(0.1)), Dense(4, "relu"), Dense(1)]
    )
    model.compile(keras.optimizers.AdamW(0.01, weight_decay=0.1, clipnorm=0.5), "mse", metrics=["mae"])
    for x, y in dense_batches(SIZES):
        model.fit(x, y, batch_size=max(SIZES), shuffle=False, verbose=0)


def loop(ad):
    """Dense layers on sequences in a loop by hand, with momentum."""
    layers = [
        Dense(5, "tanh", kernel_regularizer=L2(0.1)),
        keras.layers.EinsumDense("abc,cde->abde", output_shape=(None, 2, 3)),
        keras.layers.EinsumDense("abde,def->abf", output_shape=(None, 4), activation="tanh"),
        Dense(1),
    ]
    trained(ad, keras.Sequential([keras.Input([3, 4]), *layers]), keras.optimizers.SGD(0.05, momentum=0.9), sequences())


def clipped(ad):
    """One norm over all gradients couples all variables."""
    model = keras.Sequential([keras.Input([6]), Dense(5, "tanh"), Dense(1)])
    trained(ad, model, keras.optimizers.Adam(0.01, global_clipnorm=0.5), dense_batches(SIZES))


def trained(ad, model, optimizer, data):
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.add_n([mean_squared(y, model(x, training=True)), *model.losses])
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    for x, y in data:
        step(x, y)


def twice(ad):
    """Two updates in one step, of a loss that is a sum."""
    model = PlainModel()

    @ad.function
    def step(x, y):
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(y - model(x)))
            for variable, gradient in zip(model.variables, tape.gradient(loss, model.variables), strict=True):
                variable.assign_sub(0.01 * gradient)
        return loss

    for x, y in dense_batches(SIZES):
        step(x, y)


def codes(ad):
    """Numbers that a layer makes one-hot rows of, some out of range for TensorFlow's own op."""
    wide, table = Dense(3, "tanh"), keras.Variable(np.arange(20.0, dtype=np.float32).reshape(5, 4) / 20, name="table")
    model = keras.Sequential([keras.Input([2], dtype="int32"), keras.layers.CategoryEncoding(9, "one_hot"), wide])
    variables, optimizer = [table, *model.trainable_variables], keras.optimizers.Adam(0.05)
    optimizer.build(variables)

    @ad.function
    def step(ids, y):
        with tf.GradientTape() as tape:
            rows = tf.one_hot(ids[:, 0] - 2, 5) @ table
            loss = mean_squared(y, tf.concat([rows, tf.reduce_sum(model(ids), 1)], 1))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    random = np.random.default_rng(9)
    for size in SIZES:
        ids = random.integers(9, size=(size, 2)).astype(np.int32)
        step(ids, (ids[:, :1] - ids[:, 1:]).astype(np.float32))


def tied(ad):
    """A table for lookups that is the output layer too: products, and rows that are added up by their numbers."""
    table = keras.Variable(np.sin(np.arange(28.0, dtype=np.float32)).reshape(7, 4), name="table")
    wide, optimizer = Dense(4, "tanh"), keras.optimizers.Adam(0.05)
    wide.build([None, 4])
    variables = [table, *wide.trainable_variables]
    optimizer.build(variables)

    @ad.function
    def step(ids, labels):
        with tf.GradientTape() as tape:
            hidden = wide(tf.reduce_mean(tf.gather(table, ids), 1))
            logits = tf.matmul(hidden, table, transpose_b=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    random = np.random.default_rng(11)
    for size in SIZES:
        ids = random.integers(7, size=(size, 3)).astype(np.int32)
        step(ids, ids.sum(1) % 7)


TRAINED = {case.__name__: case for case in (fit, loop, clipped, twice, codes, tied)}
CASES = {
    "factored-fit": Case(fit),
    "factored-fit@tcp": Case(fit, {"strategy": Factored("workers", "tcp")}),
}
"""Those that share a launch with other cases."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", choices=list(TRAINED))
    parser.add_argument("--to", default="workers")
    parser.add_argument("--communicator", default="collective")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(7)
    with autodist.scope(strategy=Factored(arguments.to, arguments.communicator)) as ad:
        TRAINED[arguments.case](ad)


if __name__ == "__main__":
    main()
