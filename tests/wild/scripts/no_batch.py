"""A step without a batch: an image is optimized until it has the wanted features.

Kind: whole data in a step
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

wanted = tf.constant(np.random.default_rng(48).normal(size=(1, 8, 8, 3)).astype("float32"))
ad = autodist.AutoDist()
with ad.scope():
    picture = tf.Variable(tf.zeros((1, 8, 8, 3)))
    features = keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3, activation="tanh")])
    optimizer = keras.optimizers.Adam(0.1)

    def gram(maps):
        return tf.einsum("bhwc,bhwd->bcd", maps, maps) / 36

    @ad.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((gram(features(picture)) - gram(features(wanted))) ** 2)
            loss += 1e-3 * tf.reduce_sum(tf.image.total_variation(picture))
        optimizer.apply_gradients([(tape.gradient(loss, picture), picture)])
        picture.assign(tf.clip_by_value(picture, -1, 1))
        return loss

    losses = [step() for _ in range(5)]
found = {"picture": picture.numpy(), "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
