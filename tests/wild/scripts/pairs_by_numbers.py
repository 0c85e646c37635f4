"""Pairs from one batch, by numbers that the step computes from how many rows there are.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(201)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46,)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])

    def loss_of(a, b):
        scores, n = model(a)[:, 0], tf.shape(a)[0]
        first, second = tf.range(0, n - 1, 2), tf.range(1, n, 2)
        order = tf.sign(tf.gather(b, first) - tf.gather(b, second))
        pairs = tf.reduce_mean(tf.nn.softplus(-order * (tf.gather(scores, first) - tf.gather(scores, second))))
        half = tf.gather(scores, tf.range(n // 2))
        return (
            pairs
            + 0.1 * tf.reduce_mean(tf.square(scores - 1.0))
            + 0.1 * tf.reduce_mean(tf.square(half - tf.gather(scores, tf.range(n - 1, n - 1 - n // 2, -1))))
        )

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), model.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(11))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
