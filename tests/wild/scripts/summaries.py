"""A step that writes summaries itself.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(96)
x, y = rng.normal(size=(36, 4)).astype("float32"), rng.normal(size=(36, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1)
    writer = tf.summary.create_file_writer("summaries")
    steps = tf.Variable(0, trainable=False, dtype=tf.int64)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        steps.assign_add(1)
        with writer.as_default():
            tf.summary.scalar("loss", loss, step=steps)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(8))]
found = {"weights": model.get_weights(), "losses": losses}
