"""Model-agnostic meta-learning: the gradient of a gradient step, task by task in a Python loop.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(53)
tasks_x = rng.normal(size=(22, 6, 1)).astype("float32")
tasks_y = (tasks_x * rng.normal(size=(22, 1, 1)) + rng.normal(size=(22, 1, 1))).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    w1, b1 = tf.Variable(rng.normal(size=(1, 5)).astype("float32")), tf.Variable(tf.zeros(5))
    w2 = tf.Variable(rng.normal(size=(5, 1)).astype("float32") * 0.3)
    optimizer = keras.optimizers.SGD(0.05)

    def predicted(x, w1, b1, w2):
        return tf.matmul(tf.tanh(tf.matmul(x, w1) + b1), w2)

    @ad.function
    def step(x, y):
        weights = [w1, b1, w2]
        with tf.GradientTape() as outer:
            fast = [tf.repeat(v[None], tf.shape(x)[0], axis=0) for v in weights]
            fast[1] = fast[1][:, None]
            with tf.GradientTape() as inner:
                inner.watch(fast)
                losses = tf.reduce_mean((predicted(x[:, :3], *fast) - y[:, :3]) ** 2, axis=(1, 2))
            slopes = inner.gradient(losses, fast)
            adapted = [v - 0.1 * slope for v, slope in zip(fast, slopes)]
            loss = tf.reduce_mean((predicted(x[:, 3:], *adapted) - y[:, 3:]) ** 2)
        optimizer.apply(outer.gradient(loss, weights), weights)
        return loss

    losses = [
        step(*batch)
        for _ in range(2)
        for batch in ad.shard(tf.data.Dataset.from_tensor_slices((tasks_x, tasks_y)).batch(6))
    ]
found = {"weights": [v.numpy() for v in (w1, b1, w2)], "losses": losses}
