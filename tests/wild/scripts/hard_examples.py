"""Online hard example mining: only the worst part of each batch counts.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(15)
x, y = rng.normal(size=(42, 5)).astype("float32"), rng.integers(0, 3, 42)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.3)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
            worst, _ = tf.math.top_k(losses, k=tf.shape(losses)[0] // 3 + 1)
            loss = tf.reduce_mean(worst)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [
        step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(16))
    ]
found = {"weights": model.get_weights(), "losses": losses}
