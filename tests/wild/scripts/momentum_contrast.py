"""Momentum contrast: each step puts its keys into a queue; an encoder follows slowly.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(83)
x = rng.normal(size=(40, 6)).astype("float32")


def encoder():
    return keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)])


ad = autodist.AutoDist()
with ad.scope():
    fast, slow = encoder(), encoder()
    slow.set_weights(fast.get_weights())
    queue = tf.Variable(tf.math.l2_normalize(rng.normal(size=(24, 4)).astype("float32"), 1), trainable=False)
    optimizer = keras.optimizers.SGD(0.2)

    @ad.function
    def step(one, other):
        keys = tf.math.l2_normalize(slow(other), 1)
        with tf.GradientTape() as tape:
            queries = tf.math.l2_normalize(fast(one), 1)
            right = tf.reduce_sum(queries * keys, axis=1, keepdims=True)
            logits = tf.concat([right, tf.matmul(queries, queue, transpose_b=True)], axis=1) / 0.2
            labels = tf.zeros(tf.shape(logits)[:1], tf.int32)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, fast.trainable_variables), fast.trainable_variables)
        for a, b in zip(slow.trainable_variables, fast.trainable_variables):
            a.assign(0.9 * a + 0.1 * b)
        queue.assign(tf.concat([keys, queue], axis=0)[:24])
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, x[:, ::-1])).batch(9))]
found = {"weights": fast.get_weights() + slow.get_weights(), "queue": queue.numpy(), "losses": losses}
