"""Temporal ensembling: a variable has a row for each example of the data; a step reads and writes these by number.

Kind: layers with state
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(142)
x = rng.normal(size=(40, 5)).astype("float32")
ids = rng.permutation(40)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(3)])
    bank = tf.Variable(tf.zeros((40, 3)), trainable=False)
    optimizer = keras.optimizers.SGD(0.3)

    @ad.function
    def step(x, ids):
        before = tf.gather(bank, ids)
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = tf.reduce_mean((outputs - before) ** 2) - 0.1 * tf.reduce_mean(tf.nn.softmax(outputs) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        bank.scatter_nd_update(ids[:, None], 0.6 * before + 0.4 * outputs)
        return loss

    losses = [step(*b) for _ in range(2) for b in ad.shard(tf.data.Dataset.from_tensor_slices((x, ids)).batch(9))]
found = {"weights": model.get_weights(), "bank": bank.numpy(), "losses": losses}
