"""A variational autoencoder as in Keras' guides: a custom train_step with three trackers, noise by tf.random.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(21).random((30, 6, 6, 1)).astype("float32")


class VAE(keras.Model):
    def __init__(self):
        super().__init__()
        layers = keras.layers
        self.encoder = keras.Sequential(
            [
                keras.Input((6, 6, 1)),
                layers.Conv2D(4, 3, 2, "same", activation="relu"),
                layers.Flatten(),
                layers.Dense(4),
            ]
        )
        self.decoder = keras.Sequential(
            [
                keras.Input((2,)),
                layers.Dense(36),
                layers.Reshape((3, 3, 4)),
                layers.Conv2DTranspose(1, 3, 2, "same", activation="sigmoid"),
            ]
        )
        self.trackers = [keras.metrics.Mean(name=name) for name in ("total", "picture", "divergence")]

    @property
    def metrics(self):
        return self.trackers

    def train_step(self, x):
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(self.encoder(x), 2, axis=1)
            code = mean + tf.exp(log_variance / 2) * tf.random.normal(tf.shape(mean))
            picture = tf.reduce_mean(
                tf.reduce_sum(keras.losses.binary_crossentropy(x, self.decoder(code)), axis=(1, 2))
            )
            divergence = -0.5 * (1 + log_variance - mean**2 - tf.exp(log_variance))
            divergence = tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
            total = picture + divergence
        self.optimizer.apply_gradients(zip(tape.gradient(total, self.trainable_weights), self.trainable_weights))
        for tracker, value in zip(self.trackers, (total, picture, divergence)):
            tracker.update_state(value)
        return {tracker.name: tracker.result() for tracker in self.trackers}


with autodist.scope():
    model = VAE()
    model.compile(keras.optimizers.SGD(0.02))
    history = model.fit(x, batch_size=9, epochs=2, shuffle=False, verbose=0)
found = {"weights": model.get_weights(), "history": history.history}
