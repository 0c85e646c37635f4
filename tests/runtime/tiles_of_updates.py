"""Train with optimizers that look at all of a gradient; the values go into a file: by rank, or without a rank alone."""

import os
import sys

import keras
import numpy as np
import tensorflow as tf

import autodist

WIDTH = 256
optimizers = keras.optimizers
MADE = {
    "clipnorm": lambda: optimizers.SGD(1.0, momentum=0.9, clipnorm=0.05),
    "global_clipnorm": lambda: optimizers.AdamW(0.05, epsilon=1e-3, global_clipnorm=0.05),
    "accumulation": lambda: optimizers.Adam(0.05, epsilon=1e-3, gradient_accumulation_steps=2, global_clipnorm=0.05),
    "averages": lambda: optimizers.SGD(0.5, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2),
    "Lamb": lambda: optimizers.Lamb(0.05, epsilon=1e-2),
    "Adafactor": lambda: optimizers.Adafactor(0.05),
    "loss scale": lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.5), initial_scale=8.0, dynamic_growth_steps=2),
}


def network():
    keras.utils.set_random_seed(0)
    hidden = [keras.layers.Dense(WIDTH, "tanh"), keras.layers.Dense(WIDTH, "relu")]
    return keras.Sequential([keras.Input((16,)), *hidden, keras.layers.Dense(8)])


def fitted(made, x, y):
    with autodist.scope():
        model, optimizer = network(), made()
        model.compile(optimizer=optimizer, loss="mse")
        model.fit(x, y, batch_size=12, epochs=2, shuffle=False, verbose=0)
        return [np.asarray(v) for v in (*model.variables, *optimizer.variables)]


def looped(x, y):
    """By hand, with the norm of all gradients as a result, and a second step that changes the last layer alone."""
    with autodist.scope():
        model, optimizer = network(), optimizers.SGD(1.0, momentum=0.9)
        optimizer.build(model.trainable_variables)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 0.05)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return norm

        @tf.function
        def last(x, y):
            kernel = model.layers[-1].kernel.value
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
            kernel.assign_sub(tf.clip_by_norm(tape.gradient(loss, kernel), 0.05))

        norms = []
        for k in range(4):
            rows = slice(12 * k, 12 * k + 12)
            norms.append(step(x[rows], y[rows]).numpy())
            last(x[rows], y[rows])
        return [np.asarray(norms), *(np.asarray(v) for v in (*model.variables, *optimizer.variables))]


def main(directory):
    numbers = np.random.default_rng(0)
    x, y = (numbers.normal(size=(48, width)).astype(np.float32) for width in (16, 8))
    begun = network().layers[1].kernel.numpy()
    found = {name: fitted(made, x, y) for name, made in MADE.items()} | {"loop": looped(x, y)}
    moved = min(np.abs(next(v for v in values if v.shape == begun.shape) - begun).max() for values in found.values())
    arrays = {f"{name} {k}": value for name, values in found.items() for k, value in enumerate(values)}
    name = os.environ.get("RANK", "alone")
    np.savez(os.path.join(directory, name), moved=moved, **arrays)


if __name__ == "__main__":
    main(sys.argv[1])
