"""Constraints, regularizers of weights and of activities, and an orthogonal regularizer written by hand.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(99)
x, y = rng.normal(size=(41, 5)).astype("float32"), rng.normal(size=(41, 2)).astype("float32")


class Orthogonal(keras.regularizers.Regularizer):
    def __call__(self, kernel):
        kernel = tf.convert_to_tensor(kernel)
        return 0.01 * tf.reduce_sum((tf.matmul(kernel, kernel, transpose_a=True) - tf.eye(kernel.shape[1])) ** 2)


with autodist.scope():
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((5,)),
            layers.Dense(6, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.8), kernel_regularizer=Orthogonal()),
            layers.Dense(4, "relu", activity_regularizer=keras.regularizers.L1(0.02), bias_constraint="non_neg"),
            layers.Dense(
                2,
                kernel_constraint=keras.constraints.UnitNorm(),
                kernel_regularizer=keras.regularizers.L1L2(1e-3, 1e-3),
            ),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), "mse")
    history = model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
