"""Gradients of each example by tape.jacobian: their spread, their cosines with the mean, and a kernel of them.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(429)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), [v.value for v in model.trainable_variables]

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            losses = tf.square(model(a) - b)[:, 0]
        slopes = tape.jacobian(losses, variables)
        flat = tf.concat([tf.reshape(s, [tf.shape(a)[0], s.shape[1:].num_elements()]) for s in slopes], axis=1)
        mean = tf.reduce_mean(flat, axis=0)
        cosines = tf.linalg.matvec(flat, mean) / (tf.norm(flat, axis=1) * tf.norm(mean) + 1e-3)
        kernel = tf.matmul(flat, flat, transpose_b=True)
        weights = tf.nn.softmax(2.0 * cosines)
        optimizer.apply([tf.tensordot(weights, s, 1) for s in slopes], variables)
        return tf.reduce_mean(losses), tf.linalg.trace(kernel) / tf.reduce_sum(kernel)

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [v.numpy() for v in variables],
    "slots": [v.numpy() for v in optimizer.variables],
    "losses": losses,
}
