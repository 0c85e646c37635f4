"""Stochastic depth by a branch on one random number; a mixing layer chosen by tf.switch_case; cut-outs of one place.

Kind: random layers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(448)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    noise = tf.random.Generator.from_seed(41)
    block = keras.layers.Dense(8, "tanh")
    block.build((None, 8))

    def mixed(z, b):
        share = noise.uniform([], 0.5, 1.0)
        return share * z + (1.0 - share) * tf.roll(z, 1, axis=0), share * b + (1.0 - share) * tf.roll(b, 1, axis=0)

    def loss_of(a, b):
        place = noise.uniform([], maxval=4, dtype=tf.int32)
        a = a * tf.cast((tf.range(6) < place) | (tf.range(6) >= place + 2), tf.float32)
        layer = noise.uniform([], maxval=3, dtype=tf.int32)
        if layer == 0:
            a, b = mixed(a, b)
        z = model.layers[0](a)
        if layer == 1:
            z, b = mixed(z, b)
        if noise.uniform([]) < 0.5:
            z = z + block(z) / 0.5
        z = tf.switch_case(layer, [lambda: z, lambda: 0.9 * z, lambda: z - tf.reduce_mean(z, axis=0)])
        return tf.reduce_mean(tf.square(model.layers[1](z) - b))

    optimizer, variables = (
        keras.optimizers.SGD(0.1, momentum=0.9),
        model.trainable_variables + block.trainable_variables,
    )

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [v.numpy() for v in variables],
    "slots": [v.numpy() for v in optimizer.variables],
    "losses": losses,
}
