"""Ranking with a pairwise logistic loss over all pairs of a batch whose relevance differs.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(7)
x = rng.normal(size=(45, 5)).astype("float32")
relevance = np.clip(np.round(x.sum(1) + 2), 0, 4).astype("float32")


class Pairwise(keras.losses.Loss):
    def __call__(self, y_true, y_pred, sample_weight=None):
        scores, relevance = y_pred[:, 0], tf.reshape(y_true, [-1])
        ahead = tf.cast(relevance[:, None] > relevance[None, :], tf.float32)
        losses = tf.nn.softplus(scores[None, :] - scores[:, None]) * ahead
        return tf.math.divide_no_nan(tf.reduce_sum(losses), tf.reduce_sum(ahead))


with autodist.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(7, "relu"), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.2), Pairwise())
    history = model.fit(x, relevance[:, None], batch_size=16, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
