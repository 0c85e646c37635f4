"""Loops that end in the middle of the data, datasets by zip, take and repeat, an iterator that is kept.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(116)
x, y = rng.normal(size=(50, 4)).astype("float32"), rng.normal(size=(50, 1)).astype("float32")
data = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(x), tf.data.Dataset.from_tensor_slices(y)))
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = []
    for epoch in range(2):
        for k, batch in enumerate(ad.shard(data.shuffle(50, seed=3).batch(7))):
            losses.append(step(*batch))
            if k == 3 + epoch:
                break
    endless = iter(ad.shard(data.repeat().batch(9)))
    losses += [step(*next(endless)) for _ in range(6)]
    losses += [step(*batch) for batch in ad.shard(data.take(20).batch(6))]
found = {"weights": model.get_weights(), "losses": losses}
