"""A graph network whose step takes its graph from outside: it has no arguments.

Kind: whole data in a step
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(47)
features = tf.constant(rng.normal(size=(25, 6)).astype("float32"))
labels = tf.constant(rng.integers(0, 3, 25))
sources, targets = tf.constant(rng.integers(0, 25, 80)), tf.constant(rng.integers(0, 25, 80))
ad = autodist.AutoDist()
with ad.scope():
    one, two = keras.layers.Dense(8, "relu"), keras.layers.Dense(3)
    one.build((None, 12))
    two.build((None, 8))
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    variables = one.trainable_variables + two.trainable_variables

    @ad.function
    def step():
        with tf.GradientTape() as tape:
            messages = tf.math.unsorted_segment_mean(tf.gather(features, sources), targets, 25)
            logits = two(one(tf.concat([features, messages], axis=1)))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses = [step() for _ in range(4)]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
