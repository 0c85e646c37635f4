"""A tf.Module without Keras: variables made in the first call, momentum by hand, a method as the step.

Kind: own loops
"""

import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(114)
x, y = rng.normal(size=(44, 4)).astype("float32"), rng.normal(size=(44, 1)).astype("float32")


class Network(tf.Module):
    def __init__(self):
        super().__init__()
        init = np.random.default_rng(1)
        self.weights = [tf.Variable(init.normal(size=s).astype("float32") * 0.5) for s in [(4, 6), (6, 1)]]
        self.speeds = [tf.Variable(tf.zeros(w.shape), trainable=False) for w in self.weights]

    def __call__(self, x):
        return tf.tanh(x @ self.weights[0]) @ self.weights[1]

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((self(x) - y) ** 2) / 11
        for weight, speed, gradient in zip(self.weights, self.speeds, tape.gradient(loss, self.weights)):
            speed.assign(0.9 * speed + tf.clip_by_norm(gradient, 1.0))
            weight.assign_sub(0.1 * speed)
        return {"loss": loss, "norm": tf.linalg.global_norm(self.weights)}


ad = autodist.AutoDist()
with ad.scope():
    network = Network()
    step = ad.function(network.step)
    logs = [step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(11))]
found = {"weights": [w.numpy() for w in network.weights + network.speeds], "logs": logs}
