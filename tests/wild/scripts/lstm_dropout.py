"""Recurrent layers with Dropout by example, inside and outside of the loop over time.

Kind: random layers
Told: random numbers by example
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(130)
x, y = rng.normal(size=(26, 5, 3)).astype("float32"), rng.normal(size=(26, 1)).astype("float32")
with autodist.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((5, 3)),
            layers.LSTM(6, dropout=0.2, return_sequences=True),
            layers.GRU(5, recurrent_dropout=0.2),
            layers.Dropout(0.3),
            layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
