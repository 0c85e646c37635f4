"""Proximal policy optimization: advantages normalized over the batch, three updates in a step, clipped gradients.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(212)
states, returns = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=46).astype("float32")
actions, before = rng.integers(0, 3, 46), -np.abs(rng.normal(size=46)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)])
    optimizer, variables = keras.optimizers.Adam(0.02), model.trainable_variables

    @ad.function
    def step(state, action, value, old):
        gain = (value - tf.reduce_mean(value)) / (tf.math.reduce_std(value) + 1e-6)
        for _ in range(3):
            with tf.GradientTape() as tape:
                made = model(state)
                logs = tf.nn.log_softmax(made[:, :3])
                ratio = tf.exp(tf.gather(logs, action, batch_dims=1) - old)
                clipped = tf.minimum(ratio * gain, tf.clip_by_value(ratio, 0.8, 1.2) * gain)
                entropy = -tf.reduce_mean(tf.reduce_sum(tf.exp(logs) * logs, axis=1))
                loss = 0.5 * tf.reduce_mean(tf.square(made[:, 3] - value)) - tf.reduce_mean(clipped) - 0.01 * entropy
            gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, variables), 0.5)
            optimizer.apply(gradients, variables)
        beyond = tf.reduce_mean(tf.cast(tf.abs(ratio - 1.0) > 0.2, tf.float32))
        explained = 1.0 - tf.math.reduce_variance(value - made[:, 3]) / tf.math.reduce_variance(value)
        return norm, beyond, explained

    data = ad.shard(tf.data.Dataset.from_tensor_slices((states, actions, returns, before)).batch(11))
    told = [step(*batch) for batch in data]
found = {"weights": model.get_weights(), "told": told}
