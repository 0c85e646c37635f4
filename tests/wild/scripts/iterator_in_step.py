"""A step that takes an iterator and fetches its batch itself, as in the guides of tf.distribute.

Kind: own loops
Refused: (?i)iterator
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(110)
x, y = rng.normal(size=(34, 4)).astype("float32"), rng.normal(size=(34, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @ad.function
    def step(iterator):
        x, y = next(iterator)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    batches = iter(ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(8)))
    losses = [step(batches) for _ in range(4)]
found = {"weights": model.get_weights(), "losses": losses}
