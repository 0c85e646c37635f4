"""A generator that shuffles by random numbers without a seed: each worker has other batches.

Kind: data
Refused: another batch than the chief|other batches than the chief
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(92).normal(size=(60, 4)).astype("float32")


def rows():
    for k in np.random.default_rng().permutation(60):
        yield x[k], x[k].sum(keepdims=True)


data = tf.data.Dataset.from_generator(rows, output_signature=(tf.TensorSpec((4,)), tf.TensorSpec((1,))))
with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse")
    model.fit(data.batch(10), epochs=1, verbose=0)
found = {"weights": model.get_weights()}
