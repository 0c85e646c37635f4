"""Experts that get their examples by dynamic_partition and by tensor_scatter, with capacities along the batch.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(209)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    router = keras.Sequential([keras.Input((6,)), keras.layers.Dense(3)])
    experts = [
        keras.Sequential([keras.Input((6,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)]) for _ in range(3)
    ]

    def loss_of(a, b):
        chances = tf.nn.softmax(router(a))
        chosen = tf.argmax(chances, axis=1, output_type=tf.int32)
        numbers = tf.dynamic_partition(tf.range(tf.shape(a)[0]), chosen, 3)
        made = [expert(rows) for expert, rows in zip(experts, tf.dynamic_partition(a, chosen, 3))]
        joined = tf.dynamic_stitch(numbers, made)
        one_hot = tf.one_hot(chosen, 3)
        place = tf.reduce_sum(tf.cumsum(one_hot, axis=0) * one_hot, axis=1)
        kept = tf.cast(place <= tf.cast(tf.shape(a)[0], tf.float32) / 2.0, tf.float32)
        predicted = joined * (kept * tf.reduce_max(chances, axis=1))[:, None]
        balance = tf.reduce_sum(tf.reduce_mean(one_hot, axis=0) * tf.reduce_mean(chances, axis=0))
        return tf.reduce_mean(tf.square(predicted - b)) + 0.1 * balance

    optimizer, variables = (
        keras.optimizers.SGD(0.1, momentum=0.9),
        [v for part in (router, *experts) for v in part.trainable_variables],
    )

    @ad.function
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(a, b)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
