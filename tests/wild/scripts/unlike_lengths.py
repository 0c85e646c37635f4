"""Labelled and unlabelled examples in batches of different lengths.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(214)
x, labels = rng.normal(size=(46, 6)).astype("float32"), rng.integers(0, 4, 20)
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(4)])
    optimizer = keras.optimizers.SGD(0.1)

    @ad.function
    def step(a, label, others):
        with tf.GradientTape() as tape:
            chances = tf.nn.softmax(model(others))
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, model(a)))
            loss -= 0.1 * tf.reduce_mean(tf.reduce_sum(chances * tf.math.log(chances + 1e-6), axis=1))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    labelled = tf.data.Dataset.from_tensor_slices((x[:20], labels)).batch(4)
    both = tf.data.Dataset.zip(labelled, tf.data.Dataset.from_tensor_slices(x).batch(9))
    for (a, label), others in ad.shard(both):
        step(a, label, others)
found = {"weights": model.get_weights()}
