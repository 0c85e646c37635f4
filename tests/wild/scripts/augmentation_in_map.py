"""Augmentation in the input pipeline: stateless random operations by example, cached and shuffled data.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(35)
x, y = rng.random((30, 6, 6, 1)).astype("float32"), rng.integers(0, 2, 30)


def augment(k, example):
    image, label = example
    image = tf.image.stateless_random_flip_left_right(image, seed=(k, 1))
    return tf.image.stateless_random_brightness(image, 0.2, seed=(k, 2)), label


data = (
    tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(30, seed=35).enumerate().map(augment, tf.data.AUTOTUNE)
)
with autodist.scope():
    model = keras.Sequential(
        [keras.Input((6, 6, 1)), keras.layers.Conv2D(3, 3), keras.layers.Flatten(), keras.layers.Dense(1, "sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.1), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(data.batch(8).prefetch(2), epochs=2, verbose=0)
found = {"weights": model.get_weights(), "history": history.history}
