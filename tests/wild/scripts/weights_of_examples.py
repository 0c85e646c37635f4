"""fit with sample_weight, class_weight and weights by time step, and examples without weight.

Kind: fit
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(62)
x, y = rng.normal(size=(40, 6, 3)).astype("float32"), rng.integers(0, 3, (40, 6))
weights = rng.random((40, 6)).astype("float32")
weights[10:20] = 0.0
with autodist.scope():
    model = keras.Sequential(
        [keras.Input((6, 3)), keras.layers.SimpleRNN(6, return_sequences=True), keras.layers.Dense(3, "softmax")]
    )
    model.compile(keras.optimizers.SGD(0.2), "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    one = model.fit(x, y, sample_weight=weights, batch_size=10, epochs=1, shuffle=False, verbose=0)
    last = keras.Sequential([model, keras.layers.Lambda(lambda p: p[:, -1], output_shape=(3,))])
    last.compile(keras.optimizers.SGD(0.2), "sparse_categorical_crossentropy", metrics=["accuracy"])
    two = last.fit(x, y[:, -1], class_weight={0: 1.0, 1: 3.0, 2: 0.2}, batch_size=9, epochs=1, shuffle=False, verbose=0)
found = {"weights": last.get_weights(), "history": [one.history, two.history]}
