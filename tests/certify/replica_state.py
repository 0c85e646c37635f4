"""Train with batch normalization and dropout, and write down what they did: `replica_state.py DIRECTORY`."""

import os
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

import autodist

SIZES = (5, 6, *(8,) * 18)
RATE = 0.5


def examples():
    random = np.random.default_rng(0)
    for size in SIZES:
        x = random.normal(size=(size, 6)).astype(np.float32)
        yield x, x.sum(1, keepdims=True)


def batch_norm():
    """Losses, the weights before the first step, and the moving statistics after each."""
    first, norm, last = keras.layers.Dense(4), keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dense(1)
    model = keras.Sequential([keras.Input([6]), first, norm, last])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    found = {"norm/kernel": first.kernel.numpy(), "norm/bias": first.bias.numpy()}
    with autodist.scope() as ad:

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
            return loss

        losses = []
        for k, (x, y) in enumerate(examples()):
            losses.append(step(x, y).numpy())
            found[f"norm/mean/{k}"] = norm.moving_mean.numpy()
            found[f"norm/variance/{k}"] = norm.moving_variance.numpy()
    found |= {"norm/final_mean": norm.moving_mean.numpy(), "norm/final_variance": norm.moving_variance.numpy()}
    return found | {"norm/losses": losses, "norm/last": last.kernel.numpy()}


def dropout():
    """Which elements were kept, by example, and the state of the random generator."""
    layer = keras.layers.Dropout(RATE, seed=11)
    weights = tf.Variable(tf.ones([6, 1]))
    found = {}
    with autodist.scope() as ad:

        @ad.function
        def step(x, y):
            kept = layer(tf.ones_like(x), training=True)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square((x * kept) @ weights - y))
            weights.assign_sub(0.01 * tape.gradient(loss, weights))
            return kept

        for k, (x, y) in enumerate(examples()):
            found[f"dropout/kept/{k}"] = step(x, y).numpy()
    return found | {"dropout/seed": layer.seed_generator.state.numpy(), "dropout/weights": weights.numpy()}


if __name__ == "__main__":
    keras.utils.set_random_seed(3)
    rank = os.environ.get("RANK", "0")
    np.savez(pathlib.Path(sys.argv[1]) / f"{rank}.npz", **batch_norm(), **dropout())
