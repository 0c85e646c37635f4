"""predict, evaluate and calls of the model between two fits, with pseudo-labels from predictions.

Kind: fit
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(71)
x, y, more = (
    rng.normal(size=(40, 4)).astype("float32"),
    rng.integers(0, 2, 40),
    rng.normal(size=(23, 4)).astype("float32"),
)
options = {"batch_size": 12, "epochs": 2, "shuffle": False, "verbose": 0}
with autodist.scope():
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.5), "binary_crossentropy", metrics=["accuracy"])
    model.fit(x, y, **options)
    chances = model.predict(more, batch_size=7, verbose=0)
    sure = np.abs(chances[:, 0] - 0.5) > 0.02
    pseudo = (chances[sure, 0] > 0.5).astype(int)
    history = model.fit(np.concatenate([x, more[sure]]), np.concatenate([y, pseudo]), **options)
    score = model.evaluate(x, y, batch_size=9, verbose=0)
    direct = model(more, training=False)
found = {
    "weights": model.get_weights(),
    "history": history.history,
    "chances": chances,
    "score": score,
    "direct": direct,
}
