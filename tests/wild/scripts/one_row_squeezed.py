"""Scores without their last dim by tf.squeeze, which leaves out the batch too if the last one has a single row.

Kind: batches
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(311)
x, y = rng.normal(size=(13, 4)).astype("float32"), rng.normal(size=13).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(1)])
    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), model.trainable_variables

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            scores = tf.squeeze(model(a, training=True))
            loss = tf.reduce_mean(tf.square(scores - b)) + 0.1 * tf.math.reduce_variance(scores)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return scores, loss

    returned = [step(x[k : k + 4], y[k : k + 4]) for k in range(0, 13, 4)]
    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(6))
    losses = [step(*batch)[1] for batch in data]
found = {
    "weights": model.get_weights(),
    "slots": [v.numpy() for v in optimizer.variables],
    "returned": returned,
    "losses": losses,
}
