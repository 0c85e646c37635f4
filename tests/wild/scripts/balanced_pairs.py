"""As many positives as negatives in each batch: pairs of what two masks leave, parts joined by kind, means of segments.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(401)
x = rng.normal(size=(44, 6)).astype("float32")
y = np.concatenate([rng.permutation(count) < count // 2 for count in (8, 12, 12, 12)]).astype("int32")
words = rng.random((44, 5)) < 0.4
words[[7, 19, 31, 43], 0] = True
batches = tf.data.Dataset.from_tensor_slices((x, y, words))
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(5)])
    optimizer, variables = keras.optimizers.SGD(0.1, momentum=0.9), model.trainable_variables

    def loss_of(a, kind, word):
        scores = model(a)
        positive, negative = (tf.boolean_mask(scores, kind == k) for k in (1, 0))
        margin = tf.reduce_mean(tf.nn.relu(1.0 - positive + negative))
        by_kind = tf.concat(tf.dynamic_partition(scores, kind, 2), axis=0)
        mixed = tf.reduce_mean(tf.square(0.7 * scores + 0.3 * by_kind))
        means = tf.math.segment_mean(tf.boolean_mask(scores, word), tf.where(word)[:, 0])
        return margin + mixed + 0.1 * tf.reduce_mean(tf.square(means - 0.5))

    @ad.function
    def step(a, kind, word):
        with tf.GradientTape() as tape:
            loss = loss_of(a, kind, word)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(batches.take(8).batch(8).concatenate(batches.skip(8).batch(12)))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "losses": losses}
