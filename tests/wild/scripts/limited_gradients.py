"""Activations whose gradients are clipped, or divided by their spread, in the backward pass (tf.custom_gradient).

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(202)
x, y = rng.normal(size=(46, 5, 3)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")


@tf.custom_gradient
def limited(z):
    return tf.identity(z), lambda upstream: tf.clip_by_value(upstream, -0.01, 0.01)


@tf.custom_gradient
def scaled(z):
    return tf.identity(z), lambda upstream: 0.1 * upstream / (tf.math.reduce_std(upstream) + 1e-3)


ad = autodist.AutoDist()
with ad.scope():
    cell, top = keras.layers.SimpleRNNCell(6), keras.layers.Dense(1)
    cell.build((None, 3))
    top.build((None, 6))

    def loss_of(a, b):
        state = tf.zeros([tf.shape(a)[0], 6])
        for turn in range(5):
            state = limited(cell(a[:, turn], [state])[0])
        return tf.reduce_mean(tf.square(top(scaled(state)) - b))

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), cell.trainable_variables + top.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
