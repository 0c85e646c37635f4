"""A line search inside the step: a loop that ends as soon as the loss of the batch is small enough.

Kind: optimizers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(213)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    variables = model.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(a) - b))
        gradients = tape.gradient(loss, variables)
        rate, begun, found = tf.constant(2.0), [tf.identity(v) for v in variables], loss
        for _ in tf.range(6):
            for variable, value, gradient in zip(variables, begun, gradients):
                variable.assign(value - rate * gradient)
            found = tf.reduce_mean(tf.square(model(a) - b))
            if found < loss - 0.3 * rate * tf.linalg.global_norm(gradients) ** 2:
                break
            rate = 0.5 * rate
        return loss, found, rate

    told = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": model.get_weights(), "told": told}
