"""Batch normalization over the whole batch, in a residual network of convolutions.

Kind: layers with state
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(30)
x, y = rng.normal(size=(29, 8, 8, 2)).astype("float32"), rng.integers(0, 3, 29)
with autodist.scope(batch_norm="synchronized"):
    inputs = keras.Input((8, 8, 2))
    top = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(inputs)
    hidden = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.8)(top))
    hidden = keras.layers.Conv2D(4, 3, padding="same", use_bias=False)(hidden)
    hidden = keras.layers.ReLU()(keras.layers.BatchNormalization(momentum=0.8)(hidden) + top)
    outputs = keras.layers.Dense(3, "softmax")(keras.layers.GlobalAveragePooling2D()(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, batch_size=10, epochs=2, validation_split=0.2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
}
