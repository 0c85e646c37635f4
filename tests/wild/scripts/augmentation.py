"""Augmentation layers in the model: flips, turns, zooms, moves, contrast, brightness.

Kind: random layers
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(34)
x, y = rng.random((24, 8, 8, 3)).astype("float32"), rng.integers(0, 2, 24)
with autodist.scope():
    layers = keras.layers
    augment = [
        layers.RandomFlip(),
        layers.RandomRotation(0.2),
        layers.RandomTranslation(0.1, 0.1),
        layers.RandomZoom(0.2),
        layers.RandomContrast(0.3),
        layers.RandomBrightness(0.2, value_range=(0, 1)),
    ]
    model = keras.Sequential([keras.Input((8, 8, 3)), *augment, layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), keras.losses.BinaryCrossentropy(from_logits=True))
    history = model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
