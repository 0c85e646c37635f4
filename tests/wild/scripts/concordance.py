"""Concordance correlation: a loss of means, variances and a covariance over the batch.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(9)
x = rng.normal(size=(50, 4)).astype("float32")
y = np.sin(x.sum(1, keepdims=True)).astype("float32")


def concordance(y_true, y_pred):
    mean_true, variance_true = tf.nn.moments(y_true, axes=0)
    mean_pred, variance_pred = tf.nn.moments(y_pred, axes=0)
    covariance = tf.reduce_mean((y_true - mean_true) * (y_pred - mean_pred), axis=0)
    return tf.reduce_mean(1 - 2 * covariance / (variance_true + variance_pred + (mean_true - mean_pred) ** 2))


with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1, nesterov=True, momentum=0.5), concordance, metrics=["mae"])
    history = model.fit(x, y, batch_size=15, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
}
