"""Ragged batches that the input pipeline makes dense after `batch`, each as wide as its longest text.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(131)
texts = tf.ragged.constant([rng.integers(1, 15, size=n).tolist() for n in rng.integers(1, 5, size=33)])
y = rng.normal(size=33).astype("float32")
data = tf.data.Dataset.from_tensor_slices((texts, y)).batch(9).map(lambda texts, y: (texts.to_tensor(), y))
ad = autodist.AutoDist()
with ad.scope():
    table = tf.Variable(rng.normal(size=(15, 4)).astype("float32"))
    head = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adagrad(0.1)

    @ad.function
    def step(texts, y):
        variables = [table, *head.trainable_variables]
        with tf.GradientTape() as tape:
            mask = tf.cast(texts > 0, tf.float32)[..., None]
            vectors = tf.reduce_sum(tf.gather(table, texts) * mask, axis=1) / tf.reduce_sum(mask, axis=1)
            loss = tf.reduce_mean((head(vectors)[:, 0] - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [step(*batch) for _ in range(2) for batch in ad.shard(data)]
found = {"weights": [table.numpy(), *head.get_weights()], "losses": losses}
