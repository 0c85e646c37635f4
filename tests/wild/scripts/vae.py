"""A variational autoencoder with a sampling layer and the divergence by add_loss.

Kind: generative models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

x = np.random.default_rng(20).random((44, 10)).astype("float32")


class Sampling(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(20)

    def call(self, moments):
        mean, log_variance = moments
        self.add_loss(-0.05 * tf.reduce_mean(1 + log_variance - mean**2 - tf.exp(log_variance)))
        return mean + tf.exp(0.5 * log_variance) * keras.random.normal(tf.shape(mean), seed=self.seeds)


with autodist.scope():
    inputs = keras.Input((10,))
    hidden = keras.layers.Dense(8, "relu")(inputs)
    code = Sampling()([keras.layers.Dense(3)(hidden), keras.layers.Dense(3)(hidden)])
    outputs = keras.layers.Dense(10, "sigmoid")(keras.layers.Dense(8, "relu")(code))
    model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    history = model.fit(x, x, batch_size=12, epochs=2, shuffle=False, verbose=0)
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in model.optimizer.variables],
    "loss": history.history["loss"],
}
