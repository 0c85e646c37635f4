"""A recurrent cell written by hand in a tf.while_loop, and a conditional random field by tf.scan.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(100)
x, tags = rng.normal(size=(28, 6, 3)).astype("float32"), rng.integers(0, 4, (28, 6))
ad = autodist.AutoDist()
with ad.scope():
    kernel, recurrent = tf.Variable(rng.normal(size=(3, 4)).astype("float32")), tf.Variable(tf.eye(4) * 0.5)
    transitions = tf.Variable(tf.zeros((4, 4)))
    variables, optimizer = [kernel, recurrent, transitions], keras.optimizers.SGD(0.1)

    @ad.function
    def step(x, tags):
        with tf.GradientTape() as tape:
            state, scores = tf.zeros((tf.shape(x)[0], 4)), tf.TensorArray(tf.float32, 6)
            for k in tf.range(6):
                state = tf.tanh(tf.matmul(x[:, k], kernel) + tf.matmul(state, recurrent))
                scores = scores.write(k, state)
            scores = scores.stack()

            def forward(alpha, score):
                return score + tf.reduce_logsumexp(alpha[:, :, None] + transitions[None], axis=1)

            all_paths = tf.reduce_logsumexp(tf.scan(forward, scores[1:], initializer=scores[0])[-1], axis=1)
            path = tf.reduce_sum(tf.transpose(scores, [1, 0, 2]) * tf.one_hot(tags, 4), axis=(1, 2))
            path += tf.reduce_sum(tf.gather_nd(transitions, tf.stack([tags[:, :-1], tags[:, 1:]], axis=-1)), axis=1)
            loss = tf.reduce_mean(all_paths - path)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, tags)).batch(8))]
found = {"weights": [v.numpy() for v in variables], "losses": losses}
