"""compile(run_eagerly=True), as while debugging.

Kind: fit
Refused: run_eagerly=True
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(97)
x, y = rng.normal(size=(30, 4)).astype("float32"), rng.normal(size=(30, 1)).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    history = model.fit(x, y, batch_size=8, epochs=1, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
