"""An encoder and a decoder with attention and teacher forcing, then greedy decoding with the trained parts.

Kind: models
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(117)
source = rng.integers(1, 9, (29, 5))
target = np.concatenate([np.zeros((29, 1), int), source[:, ::-1]], axis=1)
with autodist.scope():
    words, before = keras.Input((5,), dtype="int32"), keras.Input((None,), dtype="int32")
    table = keras.layers.Embedding(9, 6)
    encoded, *state = keras.layers.LSTM(8, return_sequences=True, return_state=True)(table(words))
    decoded = keras.layers.LSTM(8, return_sequences=True)(table(before), initial_state=state)
    attended = keras.layers.AdditiveAttention()([decoded, encoded])
    chances = keras.layers.Dense(9, "softmax")(keras.layers.Concatenate()([decoded, attended]))
    model = keras.Model([words, before], chances)
    model.compile(keras.optimizers.Adam(0.02), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit([source, target[:, :-1]], target[:, 1:], batch_size=8, epochs=2, shuffle=False, verbose=0)
    texts = np.zeros((4, 1), int)
    for _ in range(3):
        following = model.predict([source[:4], texts], verbose=0)[:, -1].argmax(-1)
        texts = np.concatenate([texts, following[:, None]], axis=1)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "history": history.history,
    "texts": texts,
}
