"""Dropout, spatial and Gaussian Dropout, alpha Dropout and Gaussian noise, without seeds.

Kind: random layers
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(33)
x, y = rng.normal(size=(35, 8, 3)).astype("float32"), rng.normal(size=(35, 1)).astype("float32")
with autodist.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 3)),
            layers.GaussianNoise(0.1),
            layers.Conv1D(6, 3, activation="relu"),
            layers.SpatialDropout1D(0.2),
            layers.Flatten(),
            layers.GaussianDropout(0.2),
            layers.Dense(8, "selu"),
            layers.AlphaDropout(0.1),
            layers.Dense(4, "relu"),
            layers.Dropout(0.3),
            layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.05), "mse")
    history = model.fit(x, y, batch_size=10, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
