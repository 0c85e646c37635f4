"""Several gradient steps on one batch, in a loop over tf.range inside one function.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(54)
x, y = rng.normal(size=(30, 4)).astype("float32"), rng.normal(size=(30, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    @ad.function
    def steps(x, y):
        loss = tf.constant(0.0)
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    losses = [steps(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))]
found = {"weights": model.get_weights(), "losses": losses}
