"""A neural differential equation: steps in a loop as long as the error over the batch allows.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(426)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    field = keras.layers.Dense(8, "tanh")
    field.build((None, 8))

    def flow(z):
        t, h = tf.constant(0.0), tf.constant(0.3)
        while t < 0.999:
            h = tf.minimum(h, 1.0 - t)
            one = field(z)
            far = z + h * one
            near = z + 0.5 * h * (one + field(far))
            error = tf.sqrt(tf.reduce_mean(tf.square(near - far)))
            if error < 0.08:
                z, t = near, t + h
            h *= tf.clip_by_value(tf.stop_gradient(0.9 * tf.sqrt(0.06 / (error + 1e-6))), 0.4, 1.6)
        return z

    def loss_of(a, b):
        return tf.reduce_mean(tf.square(model.layers[1](flow(model.layers[0](a))) - b))

    optimizer, variables = keras.optimizers.SGD(0.05), model.trainable_variables + field.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [v.numpy() for v in variables],
    "slots": [v.numpy() for v in optimizer.variables],
    "losses": losses,
}
