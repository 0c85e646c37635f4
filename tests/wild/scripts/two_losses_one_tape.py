"""Several tasks: a persistent tape, gradients of two losses projected off each other, learned weights.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(119)
x = rng.normal(size=(42, 5)).astype("float32")
one, other = x.sum(1), np.cos(x[:, 0]).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    body = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)])
    logs_of_variance = tf.Variable(tf.zeros(2))
    optimizer = keras.optimizers.Adam(0.02)
    shared = body.trainable_variables

    @ad.function
    def step(x, one, other):
        with tf.GradientTape(persistent=True) as tape:
            outputs = body(x, training=True)
            first = tf.reduce_mean((outputs[:, 0] - one) ** 2)
            second = tf.reduce_mean(tf.abs(outputs[:, 1] - other))
            total = tf.reduce_sum(tf.exp(-logs_of_variance) * tf.stack([first, second]) + logs_of_variance)
        a, b = tape.gradient(first, shared), tape.gradient(second, shared)
        product = tf.add_n([tf.reduce_sum(p * q) for p, q in zip(a, b)])
        share = tf.minimum(product, 0.0) / tf.add_n([tf.reduce_sum(q * q) for q in b])
        gradients = [p - share * q + q for p, q in zip(a, b)]
        of_weights = tape.gradient(total, logs_of_variance)
        optimizer.apply_gradients(zip([*gradients, of_weights], [*shared, logs_of_variance]))
        return first, second, product

    data = tf.data.Dataset.from_tensor_slices((x, one, other)).batch(10)
    losses = [step(*batch) for _ in range(2) for batch in ad.shard(data)]
found = {"weights": [*body.get_weights(), logs_of_variance.numpy()], "losses": losses}
