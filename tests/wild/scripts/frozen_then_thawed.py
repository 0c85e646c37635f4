"""Transfer learning: the base is frozen at first, then its top is trained too, with a smaller learning rate.

Kind: fit
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(74)
x, y = rng.normal(size=(27, 8, 8, 2)).astype("float32"), rng.integers(0, 3, 27)
with autodist.scope():
    base = keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            keras.layers.Conv2D(4, 3),
            keras.layers.BatchNormalization(),
            keras.layers.Conv2D(4, 3),
            keras.layers.GlobalMaxPooling2D(),
        ]
    )
    base.trainable = False
    inputs = keras.Input((8, 8, 2))
    model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(base(inputs, training=False)))
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy")
    one = model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
    base.trainable = True
    for layer in base.layers[:2]:
        layer.trainable = False
    model.compile(keras.optimizers.Adam(0.002), "sparse_categorical_crossentropy")
    two = model.fit(x, y, batch_size=8, epochs=2, initial_epoch=1, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": [one.history["loss"], two.history["loss"]],
}
