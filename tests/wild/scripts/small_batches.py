"""Batches of one example, batches smaller than the number of workers, and an incomplete last one.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(87)
x, y = rng.normal(size=(13, 4)).astype("float32"), rng.integers(0, 2, (13, 1)).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC()])
    one = model.fit(x, y, batch_size=1, epochs=1, shuffle=False, verbose=0)
    two = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(4), epochs=2, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "losses": [one.history["loss"], two.history["loss"]],
}
