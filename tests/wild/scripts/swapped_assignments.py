"""Clusters assigned by Sinkhorn's algorithm over the batch, and swapped between views (SwAV).

In float64: its exponentials of scores by 0.1 make ten times as much of float32's round-off, whoever computes them.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(204)
x = rng.normal(size=(46, 6)).astype("float64")
ad = autodist.AutoDist()
with ad.scope():
    layers = [keras.layers.Dense(8, "tanh", dtype="float64"), keras.layers.Dense(3, dtype="float64")]
    model = keras.Sequential([keras.Input((6,), dtype="float64"), *layers])
    prototypes = tf.Variable(rng.normal(size=(3, 5)).astype("float64"))

    def assigned(scores):
        plan = tf.transpose(tf.exp(tf.stop_gradient(scores) / 0.3))
        plan /= tf.reduce_sum(plan)
        for _ in range(3):
            plan /= 5.0 * tf.reduce_sum(plan, axis=1, keepdims=True)
            plan /= tf.reduce_sum(plan, axis=0, keepdims=True) * tf.cast(tf.shape(plan)[1], tf.float64)
        return tf.transpose(plan / tf.reduce_sum(plan, axis=0, keepdims=True))

    def loss_of(a, b):
        directions = tf.math.l2_normalize(prototypes, 0)
        one, other = (tf.math.l2_normalize(model(view), 1) @ directions for view in (a, b))
        crossed = assigned(one) * tf.nn.log_softmax(other / 0.1) + assigned(other) * tf.nn.log_softmax(one / 0.1)
        return -tf.reduce_mean(tf.reduce_sum(crossed, axis=1))

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), [*model.trainable_variables, prototypes]

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, 0.9 * x[:, ::-1])).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
