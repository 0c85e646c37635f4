"""Sequences of images: TimeDistributed convolutions, ConvLSTM, three-dimensional pooling.

Kind: models
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(118)
x, y = rng.normal(size=(17, 4, 6, 6, 1)).astype("float32"), rng.integers(0, 3, 17)
with autodist.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4, 6, 6, 1)),
            layers.TimeDistributed(layers.Conv2D(3, 3, padding="same", activation="relu")),
            layers.ConvLSTM2D(3, 3, return_sequences=True),
            layers.AveragePooling3D(2),
            layers.Flatten(),
            layers.Dense(3, "softmax"),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
    history = model.fit(x, y, batch_size=5, epochs=1, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
