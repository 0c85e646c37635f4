"""Word vectors by noise-contrastive estimation: negatives are drawn once for the batch.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(84)
words, contexts = rng.integers(0, 25, 44), rng.integers(0, 25, (44, 1))
ad = autodist.AutoDist()
with ad.scope():
    table = tf.Variable(rng.normal(size=(25, 6)).astype("float32"))
    weights, biases = tf.Variable(rng.normal(size=(25, 6)).astype("float32")), tf.Variable(tf.zeros(25))
    optimizer = keras.optimizers.Adagrad(0.2)
    variables = [table, weights, biases]

    @ad.function
    def step(words, contexts):
        with tf.GradientTape() as tape:
            vectors = tf.nn.embedding_lookup(table, words)
            loss = tf.reduce_mean(tf.nn.nce_loss(weights, biases, contexts, vectors, 5, 25))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((words, contexts)).batch(10))]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
