"""Cox regression: examples of a batch are sorted by time, and each is compared with those still at risk.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(13)
x = rng.normal(size=(40, 5)).astype("float32")
time_event = np.stack([rng.exponential(size=40) + 0.1, rng.random(40) < 0.7], axis=1).astype("float32")


def partial_likelihood(time_event, risk):
    order = tf.argsort(time_event[:, 0], direction="DESCENDING")
    risk, event = tf.gather(risk[:, 0], order), tf.gather(time_event[:, 1], order)
    at_risk = tf.math.log(tf.cumsum(tf.exp(risk)))
    return -tf.reduce_sum((risk - at_risk) * event) / tf.reduce_sum(event)


with autodist.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1, use_bias=False)])
    model.compile(keras.optimizers.SGD(0.1), partial_likelihood)
    history = model.fit(x, time_event, batch_size=14, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
