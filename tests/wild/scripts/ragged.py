"""Ragged inputs: texts of different lengths, which a step turns into means of embeddings.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(40)
texts = tf.ragged.constant([rng.integers(0, 15, size=n).tolist() for n in rng.integers(1, 7, size=33)])
y = rng.normal(size=33).astype("float32")
data = tf.data.Dataset.from_tensor_slices((texts, y)).batch(9)
ad = autodist.AutoDist()
with ad.scope():
    table = tf.Variable(rng.normal(size=(15, 4)).astype("float32"))
    head = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @ad.function
    def step(texts, y):
        variables = [table, *head.trainable_variables]
        with tf.GradientTape() as tape:
            vectors = tf.reduce_mean(tf.ragged.map_flat_values(tf.gather, table, texts), axis=1)
            loss = tf.reduce_mean((head(vectors)[:, 0] - y) ** 2)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses = [step(*batch) for batch in ad.shard(data)]
found = {"weights": [table.numpy(), *head.get_weights()], "losses": losses}
