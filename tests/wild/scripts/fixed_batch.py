"""A model whose input has a fixed batch size, and data without their last incomplete batch.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(91)
x, y = rng.normal(size=(33, 4)).astype("float32"), rng.integers(0, 3, 33)
with autodist.scope():
    inputs = keras.Input(batch_shape=(8, 4))
    hidden = keras.layers.Dense(6, "relu")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(3, "softmax")(hidden))
    model.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8, drop_remainder=True), epochs=2, verbose=0)
found = {"weights": model.get_weights(), "history": history.history}
