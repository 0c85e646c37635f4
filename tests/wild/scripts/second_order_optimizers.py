"""Optimizers written by hand: factors of curvature by example (K-FAC), and roots of sums of gradients (Shampoo).

Kind: optimizers
"""

import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(211)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    first, last = (tf.Variable(0.3 * rng.normal(size=shape).astype("float32")) for shape in ((6, 4), (4, 1)))
    inner, outer = tf.Variable(tf.eye(6), trainable=False), tf.Variable(tf.eye(4), trainable=False)
    summed = tf.Variable(0.1 * tf.eye(4), trainable=False)

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            sums = a @ first
            tape.watch(sums)
            loss = tf.reduce_mean(tf.square(tf.tanh(sums) @ last - b))
        of_first, of_last, of_sums = tape.gradient(loss, [first, last, sums])
        count = tf.cast(tf.shape(a)[0], tf.float32)
        inner.assign(0.8 * inner + 0.2 * tf.matmul(a, a, transpose_a=True) / count)
        outer.assign(0.8 * outer + 0.2 * tf.matmul(of_sums, of_sums, transpose_a=True) * count)
        of_first = tf.linalg.solve(inner + 0.1 * tf.eye(6), of_first)
        first.assign_sub(0.05 * tf.transpose(tf.linalg.solve(outer + 0.1 * tf.eye(4), tf.transpose(of_first))))
        summed.assign_add(tf.matmul(of_last, of_last, transpose_b=True))
        values, vectors = tf.linalg.eigh(summed)
        root = vectors @ tf.linalg.diag(tf.maximum(values, 1e-3) ** -0.25) @ tf.transpose(vectors)
        last.assign_sub(0.05 * root @ of_last)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": [v.numpy() for v in (first, last, inner, outer, summed)], "losses": losses}
