"""Gradients accumulated in one function, which applies them every other step by tf.cond.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(51)
x, y = rng.normal(size=(50, 5)).astype("float32"), rng.normal(size=(50, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    optimizer.build(model.trainable_variables)
    sums = [tf.Variable(tf.zeros(v.shape), trainable=False) for v in model.trainable_variables]
    steps = tf.Variable(0, trainable=False)

    def apply():
        optimizer.apply_gradients(zip([s / 2 for s in sums], model.trainable_variables))
        for total in sums:
            total.assign(tf.zeros_like(total))
        return True

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        for total, gradient in zip(sums, tape.gradient(loss, model.trainable_variables)):
            total.assign_add(gradient)
        steps.assign_add(1)
        tf.cond(steps % 2 == 0, apply, lambda: False)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": model.get_weights(), "sums": [s.numpy() for s in sums], "steps": steps.numpy(), "losses": losses}
