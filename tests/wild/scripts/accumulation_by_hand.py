"""Gradients accumulated over three batches by two functions: one adds, the other applies.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(50)
x, y = rng.normal(size=(54, 5)).astype("float32"), rng.normal(size=(54, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]

    @ad.function
    def add(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
            total.assign_add(gradient / 3)
        return loss

    @ad.function
    def apply():
        optimizer.apply_gradients(zip([tf.convert_to_tensor(s) for s in sums], model.trainable_variables))
        for total in sums:
            total.assign(tf.zeros_like(total))

    losses = []
    for k, batch in enumerate(ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(7))):
        losses.append(add(*batch))
        if k % 3 == 2:
            apply()
found = {"weights": model.get_weights(), "sums": [s.numpy() for s in sums], "losses": losses}
