"""Sentences of all lengths, padded batch by batch: a bidirectional LSTM with masks, fitted and evaluated.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(31)
sentences = [rng.integers(1, 25, size=3 + (7 * k) % 11) for k in range(46)]
labels = rng.integers(0, 2, size=len(sentences))


def batches():
    signature = tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.int64)
    data = tf.data.Dataset.from_generator(lambda: zip(sentences, labels), output_signature=signature)
    return data.padded_batch(6).apply(tf.data.experimental.assert_cardinality(8))


with autodist.scope():
    layers = [keras.layers.Embedding(25, 6, mask_zero=True), keras.layers.Bidirectional(keras.layers.LSTM(5))]
    model = keras.Sequential([keras.Input([None], dtype="int64"), *layers, keras.layers.Dense(1, "sigmoid")])
    model.compile(keras.optimizers.Adam(0.01, epsilon=1e-4), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(batches(), epochs=2, verbose=0).history
    evaluated = model.evaluate(batches(), verbose=0)
found = {"weights": model.get_weights(), "history": history, "evaluated": evaluated}
