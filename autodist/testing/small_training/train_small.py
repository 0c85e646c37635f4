"""A small classifier on numbers that are drawn, for ``autodist test``."""

import keras
import numpy as np

import autodist

drawn = np.random.default_rng(0)
images = drawn.normal(size=(256, 8, 8, 1)).astype("float32")
labels = drawn.integers(0, 10, 256)

with autodist.scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(8, 3, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.05, momentum=0.9), loss=loss)
    model.fit(images, labels, batch_size=64, epochs=2, verbose=0)
