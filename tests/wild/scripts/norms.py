"""Spectral, group, layer, unit and RMS normalization, none of which looks across the batch.

Kind: layers with state
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(28)
x, y = rng.normal(size=(25, 6, 6, 2)).astype("float32"), rng.integers(0, 3, 25)
with autodist.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.SpectralNormalization(layers.Conv2D(4, 3)),
            layers.GroupNormalization(2),
            layers.Activation("relu"),
            layers.Flatten(),
            layers.UnitNormalization(),
            layers.SpectralNormalization(layers.Dense(8), power_iterations=2),
            layers.LayerNormalization(),
            layers.RMSNormalization(),
            layers.Dense(3, "softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
