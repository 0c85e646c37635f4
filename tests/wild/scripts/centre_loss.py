"""Centre loss: each class has a centre, a variable that a step moves towards the mean of its examples.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(4)
x, y = rng.normal(size=(40, 6)).astype("float32"), rng.integers(0, 3, 40).astype("int32")
ad = autodist.AutoDist()
with ad.scope():
    body = keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh")])
    head = keras.layers.Dense(3)
    head.build((None, 4))
    centres = tf.Variable(tf.zeros((3, 4)), trainable=False)
    optimizer = keras.optimizers.SGD(0.3)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            features = body(x, training=True)
            gaps = features - tf.gather(centres, y)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, head(features)))
            loss += 0.1 * tf.reduce_mean(tf.reduce_sum(gaps**2, axis=1))
        variables = body.trainable_variables + head.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)
        sums = tf.math.unsorted_segment_sum(gaps, y, 3)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(gaps[:, :1]), y, 3)
        centres.assign_add(0.5 * sums / (1.0 + counts))
        return loss

    losses = [step(*batch) for _ in range(2) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))]
found = {"weights": body.get_weights() + head.get_weights(), "centres": centres.numpy(), "losses": losses}
