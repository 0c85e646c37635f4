"""Examples are sent to one of three experts by tf.dynamic_partition and joined again by tf.dynamic_stitch.

Kind: models
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(145)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 2)).astype("float32")
kind = rng.integers(0, 3, 40).astype("int32")
ad = autodist.AutoDist()
with ad.scope():
    experts = [
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, "tanh"), keras.layers.Dense(2)]) for _ in range(3)
    ]
    optimizer = keras.optimizers.SGD(0.1)
    variables = [v for expert in experts for v in expert.trainable_variables]

    @ad.function
    def step(x, y, kind):
        places = tf.dynamic_partition(tf.range(tf.shape(x)[0]), kind, 3)
        with tf.GradientTape() as tape:
            parts = [expert(part) for expert, part in zip(experts, tf.dynamic_partition(x, kind, 3))]
            loss = tf.reduce_mean((tf.dynamic_stitch(places, parts) - y) ** 2)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    losses = [step(*batch) for batch in ad.shard(tf.data.Dataset.from_tensor_slices((x, y, kind)).batch(11))]
found = {"weights": [v.numpy() for v in variables], "losses": losses}
