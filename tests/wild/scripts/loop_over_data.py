"""A whole epoch in one tf.function, which loops over the dataset.

Kind: own loops
Refused: goes over a dataset
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(55)
x, y = rng.normal(size=(30, 4)).astype("float32"), rng.normal(size=(30, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    @ad.function
    def epoch():
        total = tf.constant(0.0)
        for a, b in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
            total += loss
        return total

    losses = [epoch() for _ in range(2)]
found = {"weights": model.get_weights(), "losses": losses}
