"""Texts of different lengths, padded in the input pipeline by padded_batch and bucketed by length.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(41)
texts = [rng.integers(1, 15, size=n) for n in rng.integers(1, 9, size=40)]
labels = np.array([int(t.sum() > 40) for t in texts])
data = tf.data.Dataset.from_generator(
    lambda: zip(texts, labels), output_signature=(tf.TensorSpec((None,), tf.int32), tf.TensorSpec((), tf.int32))
)
data = data.bucket_by_sequence_length(lambda text, _: tf.shape(text)[0], [4, 7], [9, 8, 7])
with autodist.scope():
    model = keras.Sequential(
        [keras.layers.Embedding(15, 5, mask_zero=True), keras.layers.LSTM(6), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy")
    history = model.fit(data, epochs=2, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
