"""train_on_batch and test_on_batch in a custom loop, with weights by class and by example.

Kind: fit
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(61)
x, y = rng.normal(size=(39, 5)).astype("float32"), rng.integers(0, 2, 39)
weights = rng.random(39).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(0.02), "binary_crossentropy", metrics=["accuracy"], weighted_metrics=["mae"])
    logs = []
    for begin in range(0, 39, 11):
        part = slice(begin, begin + 11)
        logs.append(model.train_on_batch(x[part], y[part], sample_weight=weights[part]))
        logs.append(model.train_on_batch(x[part], y[part], class_weight={0: 0.5, 1: 2.0}))
    logs.append(model.test_on_batch(x, y))
    predictions = model.predict_on_batch(x)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "logs": logs,
    "predictions": predictions,
}
