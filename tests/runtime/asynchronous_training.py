"""A training script for asynchronous servers and proxies: what it sees of weights that change beside its steps."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import json

import keras
import numpy as np
import tensorflow as tf

import autodist

RANK = int(os.environ.get("RANK", "0"))
WEIGHTS = np.float32([[1.0], [-2.0], [0.5], [3.0]])
STEPS = 40


def data(seed, rows=16):
    x = np.random.default_rng(seed).normal(size=(rows, 4)).astype(np.float32)
    return x, x @ WEIGHTS


def train(steps):
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    def step_of(scale):
        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = scale * tf.reduce_mean(tf.square(model(x) - y))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        return step

    one, other = step_of(1.0), step_of(0.5)  # two steps that train the same variables
    x, y = data(1)
    test = data(2, 64)

    def error():
        return float(np.mean(np.square(test[0] @ model.get_weights()[0] + model.get_weights()[1] - test[1])))

    found = {"losses": []}
    with autodist.scope():
        found["losses"] += [float(one(x, y)) for _ in range(steps)]
        found["during"] = error()  # whatever the server has by now
        found["losses"] += [float(other(x, y)) for _ in range(steps)]
        model.set_weights([np.full([4, 1], 9.0, np.float32), np.zeros([1], np.float32)])
        found["assigned"] = error()
        found["after"] = float(one(x, y))
        for _ in range(steps):
            one(x, y)
    found["end"] = error()
    found["weights"] = np.concatenate([np.ravel(w) for w in model.get_weights()]).tolist()
    found["iterations"] = int(optimizer.iterations.numpy())
    with autodist.scope():  # once more, where it was left
        found["again"] = float(one(x, y))
    return found


if __name__ == "__main__":
    keras.utils.set_random_seed(7)
    found = train(STEPS)
    with open(f"{sys.argv[1]}{RANK}.json", "w") as file:
        json.dump(found, file)
