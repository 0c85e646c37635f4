"""Embeddings that are also the output layer: one gradient is sparse, the other is dense.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

words = np.random.default_rng(26).integers(0, 20, size=(36, 6))
with autodist.scope():
    inputs = keras.Input((5,), dtype="int32")
    table = keras.layers.ReversibleEmbedding(20, 8)
    hidden = keras.layers.Dense(8, "tanh")(table(inputs))
    model = keras.Model(inputs, table(hidden, reverse=True))
    model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    data = tf.data.Dataset.from_tensor_slices((words[:, :-1], words[:, 1:])).batch(11)
    history = model.fit(data, epochs=2, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
