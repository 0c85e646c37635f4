"""Sets of points are matched example by example in tf.map_fn.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(146)
x, points = rng.normal(size=(29, 6)).astype("float32"), rng.random((29, 4, 2)).astype("float32")


def nearest(pair):
    guesses, points = pair
    distances = tf.reduce_sum((guesses[:, None] - points[None]) ** 2, axis=2)
    order = tf.argsort(tf.reduce_min(distances, axis=1))
    return tf.reduce_sum(tf.reduce_min(tf.gather(distances, order[:3]), axis=1))


ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(10)])
    optimizer = keras.optimizers.SGD(0.05)

    @ad.function
    def step(x, points):
        with tf.GradientTape() as tape:
            guesses = tf.reshape(model(x, training=True), (-1, 5, 2))
            losses = tf.map_fn(nearest, (guesses, points), fn_output_signature=tf.float32)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [
        step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, points)).batch(8))
    ]
found = {"weights": model.get_weights(), "losses": losses}
