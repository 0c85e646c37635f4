"""A script: a step of its own, evaluation, assignment, and `fit`, where gradients are applied steps later."""

import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

layers = keras.layers
numbers = np.random.default_rng(0)
x, y = (numbers.normal(size=(40, size)).astype(np.float32) for size in (12, 6))
keras.utils.set_random_seed(3)

ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((12,)), layers.Dense(24, "tanh"), layers.Dense(24, "tanh"), layers.Dense(6)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(given, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(given, training=True) - wanted) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    @ad.function
    def loss_of(given, wanted):
        return tf.reduce_mean((model(given, training=False) - wanted) ** 2)

    losses = [float(step(x[k : k + 8], y[k : k + 8])) for k in (0, 8, 16, 24)]
    before = model.get_weights()  # the last updates are still to come
    losses.append(float(loss_of(x, y)))
    settled = model.get_weights()
    losses += [float(step(x[k : k + 8], y[k : k + 8])) for k in (0, 8)]
    model.set_weights([0.9 * weight for weight in settled])
    losses.append(float(step(x[:8], y[:8])))
    model.compile(optimizer, "mse")
    history = model.fit(x, y, batch_size=8, shuffle=False, epochs=2, validation_data=(x, y), verbose=0).history
    losses += [*history["loss"], *history["val_loss"]]
    weights = model.get_weights()

found = {
    f"{name}/{k}": w
    for name, ws in (("before", before), ("settled", settled), ("end", weights))
    for k, w in enumerate(ws)
}
np.savez(Path(sys.argv[1]) / f"{os.environ.get('RANK', 'alone')}.npz", losses=np.asarray(losses), **found)
