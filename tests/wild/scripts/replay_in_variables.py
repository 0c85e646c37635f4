"""Continual learning: rows go into a ring buffer of variables; rows that are drawn from it join the batch.

Kind: layers with state
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(446)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    kept = []
    noise = tf.random.Generator.from_seed(31)
    kept = [
        tf.Variable(tf.zeros((20, 6)), trainable=False),
        tf.Variable(tf.zeros((20, 1)), trainable=False),
        tf.Variable(0, trainable=False),
    ]

    def loss_of(a, b):
        rows = tf.shape(a)[0]
        chosen = noise.uniform([6], maxval=20, dtype=tf.int32)
        old, wanted = tf.gather(kept[0], chosen), tf.gather(kept[1], chosen)
        made = model(tf.concat([a, old], axis=0))
        known = tf.cast(chosen < kept[2], tf.float32)
        loss = tf.reduce_mean(tf.square(made[:rows] - b))
        loss += tf.reduce_sum(known[:, None] * tf.square(made[rows:] - wanted)) / (1.0 + tf.reduce_sum(known))
        places = (kept[2] + tf.range(rows)) % 20
        kept[0].scatter_nd_update(places[:, None], a)
        kept[1].scatter_nd_update(places[:, None], tf.stop_gradient(made[:rows]))
        kept[2].assign_add(rows)
        return loss

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), model.trainable_variables

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
    "kept": [v.numpy() for v in kept],
    "losses": losses,
}
