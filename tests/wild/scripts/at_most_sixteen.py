"""Slices and picks of at most sixteen rows, of batches that sometimes have fewer.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(203)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])

    def loss_of(a, b):
        errors = tf.square(model(a) - b)[:, 0]
        few = tf.minimum(tf.shape(a)[0], 16)
        hard = tf.reduce_mean(tf.math.top_k(errors, few).values)
        return hard + 0.1 * tf.reduce_mean(errors[:16]) + 0.1 * tf.reduce_mean(errors[-16:])

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), model.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(20))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
