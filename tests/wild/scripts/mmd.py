"""Domain adaptation by maximum mean discrepancy: each example of one batch is compared with all of another.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(6)
source, target = rng.normal(size=(36, 5)).astype("float32"), (rng.normal(size=(36, 5)) + 1).astype("float32")
labels = (source[:, 0] > 0).astype("float32")


def kernel(a, b):
    return tf.reduce_mean(tf.exp(-tf.reduce_sum((a[:, None] - b[None]) ** 2, axis=2)))


ad = autodist.AutoDist()
with ad.scope():
    features = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh")])
    classifier = keras.Sequential([keras.Input((6,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.RMSprop(0.01)

    @ad.function
    def step(source, labels, target):
        variables = features.trainable_variables + classifier.trainable_variables
        with tf.GradientTape() as tape:
            a, b = features(source), features(target)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, classifier(a)[:, 0]))
            discrepancy = kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)
            total = loss + 0.5 * discrepancy
        optimizer.apply(tape.gradient(total, variables), variables)
        return loss, discrepancy

    data = tf.data.Dataset.from_tensor_slices((source, labels, target)).batch(10)
    losses = [step(*batch) for _ in range(2) for batch in ad.shard(data)]
found = {"weights": features.get_weights() + classifier.get_weights(), "losses": losses}
