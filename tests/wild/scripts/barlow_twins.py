"""Barlow twins: the matrix of correlations over the batch, of outputs standardized over the batch.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(12).normal(size=(46, 8)).astype("float32")


class Twins(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([keras.layers.Dense(10, "tanh"), keras.layers.Dense(4)])

    def call(self, x):
        return self.encoder(x)

    def train_step(self, views):
        with tf.GradientTape() as tape:
            a, b = (self(view, training=True) for view in views)
            a = (a - tf.reduce_mean(a, 0)) / (tf.math.reduce_std(a, 0) + 1e-3)
            b = (b - tf.reduce_mean(b, 0)) / (tf.math.reduce_std(b, 0) + 1e-3)
            correlations = tf.matmul(a, b, transpose_a=True) / tf.cast(tf.shape(a)[0], tf.float32)
            gaps = (correlations - tf.eye(4)) ** 2
            loss = tf.reduce_sum(tf.linalg.diag_part(gaps)) + 0.05 * tf.reduce_sum(gaps)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
        return {"loss": loss}


with autodist.scope():
    model = Twins()
    model.build((None, 8))
    model.compile(keras.optimizers.SGD(0.05))
    history = model.fit(tf.data.Dataset.from_tensor_slices((x, x * 0.8 + 0.1)).batch(12), epochs=2, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"]}
