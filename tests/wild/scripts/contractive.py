"""A contractive autoencoder: the Jacobian of each example's code is part of the loss.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(112).normal(size=(31, 5)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    encoder = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, "tanh")])
    decoder = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5)])
    optimizer = keras.optimizers.SGD(0.1)
    variables = encoder.trainable_variables + decoder.trainable_variables

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                code = encoder(x)
            jacobian = inner.batch_jacobian(code, x)
            loss = tf.reduce_mean((decoder(code) - x) ** 2) + 0.1 * tf.reduce_mean(
                tf.reduce_sum(jacobian**2, axis=(1, 2))
            )
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [step(batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices(x).batch(8))]
found = {"weights": [v.numpy() for v in variables], "losses": losses}
