"""A small training that says at its end whether anything was trained. `--half`: half a batch, `--tanh`: other units.

A number is the batch size.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

import autodist

keras.utils.set_random_seed(0)
examples = next(map(int, filter(str.isdigit, sys.argv[1:])), 32 if "--half" in sys.argv else 64)
activation = "tanh" if "--tanh" in sys.argv else "relu"
x = np.random.default_rng(0).standard_normal((examples, 20)).astype("float32")
y = x.sum(1, keepdims=True)

with autodist.scope():
    model = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(300, activation), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    @autodist.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    variables = [*model.variables, *optimizer.variables]
    before = [variable.numpy() for variable in variables]
    try:
        step(x, y)
        print("trained")
    finally:
        after = [variable.numpy() for variable in variables]
        print("untouched" if all(map(np.array_equal, before, after)) else "changed", flush=True)
