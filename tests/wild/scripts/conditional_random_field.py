"""A conditional random field: tf.scan over time, scores by gather_nd, a table of transitions.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(207)
x, tags = rng.normal(size=(46, 5, 6)).astype("float32"), rng.integers(0, 4, (46, 5))
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((5, 6)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)])
    moves = tf.Variable(rng.normal(size=(4, 4)).astype("float32"))

    def loss_of(a, tag):
        scores = model(a)

        def forward(state, emitted):
            return tf.reduce_logsumexp(state[:, :, None] + moves[None], axis=1) + emitted

        states = tf.scan(forward, tf.transpose(scores, [1, 0, 2])[1:], initializer=scores[:, 0])
        right = tf.reduce_sum(tf.gather(scores, tag, batch_dims=2), axis=1)
        right += tf.reduce_sum(tf.gather_nd(moves, tf.stack([tag[:, :-1], tag[:, 1:]], axis=-1)), axis=1)
        return tf.reduce_mean(tf.reduce_logsumexp(states[-1], axis=1) - right)

    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), [*model.trainable_variables, moves]

    @ad.function
    def step(a, tag):
        with tf.GradientTape() as tape:
            loss = loss_of(a, tag)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, tags)).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
