"""Sparse inputs from tf.data, multiplied with a dense table in a custom loop.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(42)
dense = (rng.random((36, 20)) < 0.2) * rng.normal(size=(36, 20))
y = dense.sum(1).astype("float32")
data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(dense.astype("float32")), y)).batch(10)
ad = autodist.AutoDist()
with ad.scope():
    weights = tf.Variable(tf.zeros((20, 1)))
    optimizer = keras.optimizers.SGD(0.3)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.sparse.sparse_dense_matmul(x, weights)[:, 0] - y) ** 2)
        optimizer.apply([tape.gradient(loss, weights)], [weights])
        return loss

    losses = [step(*batch) for batch in ad.shard(data)]
found = {"weights": weights.numpy(), "losses": losses}
