"""A bidirectional GRU over padded sequences, with an initial state that is computed from the batch.

Kind: models
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(32)
words = rng.integers(1, 10, size=(31, 6))
words[np.arange(6)[None, :] >= rng.integers(2, 7, size=31)[:, None]] = 0
context, y = rng.normal(size=(31, 3)).astype("float32"), rng.normal(size=(31, 1)).astype("float32")
with autodist.scope():
    sequence, start = keras.Input((6,), dtype="int32"), keras.Input((3,))
    embedded = keras.layers.Embedding(10, 4, mask_zero=True)(sequence)
    both = keras.layers.Bidirectional(keras.layers.GRU(5, return_sequences=True))(embedded)
    state = keras.layers.Dense(6, "tanh")(start)
    last = keras.layers.LSTM(6)(both, initial_state=[state, state])
    model = keras.Model([sequence, start], keras.layers.Dense(1)(last))
    model.compile(keras.optimizers.RMSprop(0.01), "mae")
    history = model.fit([words, context], y, batch_size=9, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
