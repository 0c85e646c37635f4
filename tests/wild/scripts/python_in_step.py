"""tf.numpy_function inside a step: a weight for each example is computed by NumPy.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(95)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")


def weigh(gaps):
    return (1.0 / (1.0 + np.abs(gaps))).astype(np.float32)


ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            gaps = model(x, training=True) - y
            weights = tf.numpy_function(weigh, [tf.stop_gradient(gaps)], tf.float32)
            weights = tf.reshape(weights, tf.shape(gaps))
            loss = tf.reduce_mean(weights * gaps**2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": model.get_weights(), "losses": losses}
