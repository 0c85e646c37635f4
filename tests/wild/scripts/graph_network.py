"""A graph network trained on all nodes at once, with a normalized adjacency matrix and a mask of nodes.

Kind: whole data in a step
Refused: rows that refer to each other
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(46)
features, labels = rng.normal(size=(25, 6)).astype("float32"), rng.integers(0, 3, 25)
edges = rng.random((25, 25)) < 0.15
adjacency = (edges | edges.T | np.eye(25, dtype=bool)).astype("float32")
adjacency /= np.sqrt(adjacency.sum(0) * adjacency.sum(1)[:, None])
train = (np.arange(25) % 3 > 0).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    one, two = keras.layers.Dense(8, "relu"), keras.layers.Dense(3)
    one.build((None, 6))
    two.build((None, 8))
    optimizer = keras.optimizers.Adam(0.05)
    variables = one.trainable_variables + two.trainable_variables

    @ad.function
    def step(features, adjacency, labels, train):
        with tf.GradientTape() as tape:
            logits = two(adjacency @ one(adjacency @ features))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_sum(losses * train) / tf.reduce_sum(train)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses = [step(features, adjacency, labels, train) for _ in range(4)]
found = {"weights": [v.numpy() for v in variables], "losses": losses}
