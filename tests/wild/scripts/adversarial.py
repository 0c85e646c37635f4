"""Adversarial training: gradients with respect to the examples make the examples to train on.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(81)
x, y = rng.normal(size=(34, 5)).astype("float32"), rng.integers(0, 3, 34)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)])
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.2)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(y, model(x))
        moved = x + 0.1 * tf.sign(tape.gradient(loss, x))
        with tf.GradientTape() as tape:
            total = 0.5 * loss_of(y, model(x)) + 0.5 * loss_of(y, model(moved))
        optimizer.apply(tape.gradient(total, model.trainable_variables), model.trainable_variables)
        return loss, total

    losses = [step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": model.get_weights(), "losses": losses}
