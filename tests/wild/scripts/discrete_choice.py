"""Gumbel softmax with a temperature that falls step by step; straight-through gradients.

Kind: random layers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(104)
x = rng.integers(0, 2, (36, 8)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    encoder = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6)])
    decoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8)])
    temperature, optimizer = tf.Variable(1.0, trainable=False), keras.optimizers.SGD(0.2)
    variables = encoder.trainable_variables + decoder.trainable_variables

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            logits = encoder(x)
            noise = -tf.math.log(-tf.math.log(tf.random.uniform(tf.shape(logits), 1e-6, 1 - 1e-6)))
            soft = tf.nn.softmax((logits + noise) / temperature)
            hard = tf.stop_gradient(tf.one_hot(tf.argmax(soft, 1), 6) - soft) + soft
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(x, decoder(hard)))
        optimizer.apply(tape.gradient(loss, variables), variables)
        temperature.assign(tf.maximum(0.5, temperature * 0.9))
        return loss

    losses = [step(batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices(x).batch(10))]
found = {"weights": [v.numpy() for v in variables], "temperature": temperature.numpy(), "losses": losses}
