"""Several gradient steps on one batch in a Python loop inside one function; the learning rate falls by tf.cond.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(133)
x, y = rng.normal(size=(30, 4)).astype("float32"), rng.normal(size=(30, 1)).astype("float32") + 1
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    rate, best = tf.Variable(0.2, trainable=False), tf.Variable(1e9, trainable=False)

    @ad.function
    def steps(x, y):
        losses = []
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            for variable, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
                variable.assign_sub(rate * gradient)
            losses.append(loss)
        rate.assign(tf.cond(losses[-1] < best, lambda: rate, lambda: rate * 0.5))
        best.assign(tf.minimum(best, losses[-1]))
        return losses

    losses = [steps(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))]
found = {"weights": model.get_weights(), "rate": rate.numpy(), "best": best.numpy(), "losses": losses}
