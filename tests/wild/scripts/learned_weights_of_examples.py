"""Learning to reweight: a step on the batch is differentiated by weights of its examples, for a clean batch.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(428)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
clean, wanted = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    first, last = (
        tf.Variable(0.3 * rng.normal(size=(6, 5)).astype("float32")),
        tf.Variable(0.3 * rng.normal(size=(5, 1)).astype("float32")),
    )

    def losses_of(a, b, one, other):
        return tf.square(tf.tanh(a @ one) @ other - b)[:, 0]

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), [first, last]

    @ad.function
    def step(a, b, clean, wanted):
        shares = tf.zeros([tf.shape(a)[0]])
        with tf.GradientTape() as outer:
            outer.watch(shares)
            with tf.GradientTape() as inner:
                inner.watch(shares)
                cost = tf.reduce_sum(shares * losses_of(a, b, first, last))
            slopes = inner.gradient(cost, [first, last])
            moved = [v - 0.1 * g for v, g in zip((first, last), slopes)]
            held = tf.reduce_mean(losses_of(clean, wanted, *moved))
        useful = tf.nn.relu(-outer.gradient(held, shares))
        weights = useful / (tf.reduce_sum(useful) + tf.cast(tf.reduce_sum(useful) == 0.0, tf.float32))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.stop_gradient(weights) * losses_of(a, b, first, last))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss, tf.reduce_max(weights)

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y, clean, wanted)).batch(9))
    losses = [step(*batch) for batch in data]
found = {
    "weights": [v.numpy() for v in variables],
    "slots": [v.numpy() for v in optimizer.variables],
    "losses": losses,
}
