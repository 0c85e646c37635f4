"""Batch normalization by default: each replica normalizes by its part of the batch.

Kind: layers with state
Told: batch_norm="synchronized"
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(29)
x, y = rng.normal(size=(48, 6)).astype("float32"), rng.integers(0, 3, 48)
with autodist.scope():
    layers = [
        keras.layers.Dense(8),
        keras.layers.BatchNormalization(),
        keras.layers.Activation("relu"),
        keras.layers.Dense(3),
    ]
    model = keras.Sequential([keras.Input((6,)), *layers])
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
