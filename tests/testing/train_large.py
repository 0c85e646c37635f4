"""Five steps on a variable of 4 MB."""

import numpy as np
import tensorflow as tf

import autodist

with autodist.scope() as ad:
    weights = tf.Variable(tf.random.stateless_normal([1024, 1024], [1, 2]))

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ weights))
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    losses = [float(step(np.ones([4, 1024], np.float32))) for _ in range(5)]
assert losses[-1] < losses[0]
print("trained", flush=True)
