"""An eager tape in a loop over a sharded dataset: each worker would train on its own part.

Kind: own loops
Refused: different gradients
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(121)
x, y = rng.normal(size=(34, 4)).astype("float32"), rng.normal(size=(34, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    for a, b in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(8)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
found = {"weights": model.get_weights()}
