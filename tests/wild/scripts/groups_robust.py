"""Groups of examples: weights by the groups' losses, kept in a variable, and a penalty of gradients (IRM).

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(206)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46,)).astype("float32")
groups = rng.integers(0, 3, 46).astype("int32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    shares = tf.Variable(tf.ones(3) / 3, trainable=False)

    def loss_of(a, b, group):
        predicted, scale = model(a)[:, 0], tf.constant(1.0)
        with tf.GradientTape() as inner:
            inner.watch(scale)
            losses = tf.math.unsorted_segment_mean(tf.square(predicted * scale - b), group, 3)
            total = tf.reduce_sum(losses)
        penalty = inner.gradient(total, scale) ** 2
        shares.assign(shares * tf.exp(0.3 * tf.stop_gradient(losses)))
        shares.assign(shares / tf.reduce_sum(shares))
        return tf.reduce_sum(shares * losses) + 0.05 * penalty + 0.1 * tf.math.reduce_variance(losses)

    optimizer, variables = keras.optimizers.SGD(0.02), model.trainable_variables

    @ad.function
    def step(a, b, group):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b, group)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y, groups)).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
