"""A search for hyperparameters: several models in turn, each trained, evaluated and dropped; the best one goes on.

Kind: fit
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(93)
x, y = rng.normal(size=(48, 4)).astype("float32"), rng.integers(0, 2, 48)
scores = []
with autodist.scope():
    for units, optimizer in [(4, "sgd"), (8, "adam"), (6, "rmsprop")]:
        keras.backend.clear_session()
        keras.utils.set_random_seed(units)
        layers = [keras.layers.Dense(units, "relu") for _ in range(units // 3)]
        model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1, "sigmoid")])
        model.compile(optimizer, "binary_crossentropy", metrics=["AUC"])
        model.fit(x[:32], y[:32], batch_size=9, epochs=1, shuffle=False, verbose=0)
        scores.append((*model.evaluate(x[32:], y[32:], verbose=0), model))
    best = min(scores, key=lambda score: score[0])[-1]
    best.fit(x, y, batch_size=11, epochs=1, shuffle=False, verbose=0)
found = {"weights": best.get_weights(), "scores": [score[:2] for score in scores]}
