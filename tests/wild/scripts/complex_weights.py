"""Weights that are complex numbers, and float64 ones: a Fourier layer, a gradient that is conjugated.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(466)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    wave = tf.Variable(tf.complex(*(0.3 * rng.normal(size=(4, 5)).astype("float32") for _ in range(2))))
    wide = tf.Variable(0.3 * rng.normal(size=(5, 1)))

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), [wave, wide]

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            spectrum = tf.signal.rfft(a) @ wave
            made = tf.cast(tf.abs(spectrum), tf.float64) @ wide
            loss = tf.reduce_mean(tf.square(made - tf.cast(b, tf.float64)))
        of_wave, of_wide = tape.gradient(loss, variables)
        wave.assign_sub(0.05 * of_wave)
        wide.assign_sub(0.05 * of_wide)
        return loss, tf.abs(tf.reduce_mean(spectrum))

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [part(v.numpy()) for v in variables for part in (np.real, np.imag)],
    "slots": [v.numpy() for v in optimizer.variables],
    "losses": losses,
}
