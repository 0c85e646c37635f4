"""A vector quantizer whose codebook is a moving average of sums over the batch; straight-through gradients.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(24).normal(size=(40, 6)).astype("float32")


class Quantizer(keras.layers.Layer):
    def build(self, shape):
        self.codes = self.add_weight(shape=(5, shape[-1]), initializer="random_normal", trainable=False, name="codes")
        self.counts = self.add_weight(shape=(5,), initializer="ones", trainable=False, name="counts")
        self.sums = self.add_weight(shape=(5, shape[-1]), initializer="zeros", trainable=False, name="sums")

    def call(self, x, training=False):
        distances = tf.reduce_sum((x[:, None] - tf.convert_to_tensor(self.codes)[None]) ** 2, axis=2)
        chosen = tf.one_hot(tf.argmin(distances, axis=1), 5)
        quantized = tf.matmul(chosen, tf.convert_to_tensor(self.codes))
        if training:
            self.counts.assign(0.9 * self.counts + 0.1 * tf.reduce_sum(chosen, axis=0))
            self.sums.assign(0.9 * self.sums + 0.1 * tf.matmul(chosen, tf.stop_gradient(x), transpose_a=True))
            self.codes.assign(self.sums / (self.counts[:, None] + 1e-2))
        self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(quantized) - x) ** 2))
        return x + tf.stop_gradient(quantized - x)


with autodist.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3), Quantizer(), keras.layers.Dense(6)])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    history = model.fit(x, x, batch_size=11, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
