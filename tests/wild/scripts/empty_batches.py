"""Batches in which a filter leaves some examples, one, or none.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(88)
x, keep = rng.normal(size=(50, 4)).astype("float32"), rng.random(50) < 0.5
keep[10:20], keep[31:40] = False, False
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True), keep)).batch(10)
data = data.map(lambda x, y, keep: (tf.boolean_mask(x, keep), tf.boolean_mask(y, keep)))
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", metrics=["mae"])
    history = model.fit(data, epochs=2, verbose=0)
found = {"weights": model.get_weights(), "history": history.history}
