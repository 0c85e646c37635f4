"""A table and two dense layers, which the builders' strategies train: a few steps of a custom loop."""

import pathlib
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import autodist
from certify.data import Case

ROWS, WIDTH, BATCH, STEPS = 31, 8, 12, 5
PLAN = str(pathlib.Path(__file__).with_name("plan.yml"))


def train(ad):
    """Some steps."""
    table = tf.Variable(tf.random.normal([ROWS, WIDTH], seed=1), name="table")
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(2)])
    model.build((None, WIDTH))
    optimizer = tf.keras.optimizers.Adam(0.01)

    @ad.function
    def step(rows, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(tf.gather(table, rows)) - wanted))
        sparse, *dense = tape.gradient(loss, [table, *model.trainable_variables])
        table.scatter_sub(tf.IndexedSlices(0.1 * sparse.values, sparse.indices))
        optimizer.apply_gradients(zip(dense, model.trainable_variables, strict=True))
        return loss

    source = np.random.default_rng(5)
    for _ in range(STEPS):
        rows = source.integers(0, ROWS, BATCH).astype("int32")
        step(rows, source.normal(size=(BATCH, 2)).astype("float32"))


CASES = {"built": Case(train), "built@plan.yml": Case(train, {"strategy": PLAN})}


def main():
    tf.keras.utils.set_random_seed(3)
    with autodist.scope() as ad:
        train(ad)


if __name__ == "__main__":
    main()
