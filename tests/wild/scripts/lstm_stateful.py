"""A stateful LSTM: each row of a batch goes on where the same row of the previous batch ended.

Kind: layers with state
Refused: a state with a row for each example
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(31)
x = rng.normal(size=(40, 5, 3)).astype("float32")
y = x.sum((1, 2))[:, None]
with autodist.scope():
    model = keras.Sequential(
        [keras.Input(batch_shape=(10, 5, 3)), keras.layers.LSTM(6, stateful=True), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.SGD(0.05), "mse")
    history = model.fit(x, y, batch_size=10, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "state": [v.numpy() for v in model.layers[0].states],
    "loss": history.history["loss"],
}
