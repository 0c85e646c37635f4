"""A physics-informed network: points are drawn inside the step, which has no batch; second derivatives.

Kind: whole data in a step
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.02)
    border = tf.constant([[0.0], [1.0]])

    @ad.function
    def step():
        points = tf.random.uniform((20, 1))
        with tf.GradientTape() as tape:
            with tf.GradientTape() as second:
                second.watch(points)
                with tf.GradientTape() as first:
                    first.watch(points)
                    values = model(points)
                slopes = first.gradient(values, points)
            curvature = second.gradient(slopes, points)
            loss = tf.reduce_mean((curvature + tf.sin(3.0 * points)) ** 2) + tf.reduce_mean(model(border) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    losses = [step() for _ in range(4)]
found = {"weights": model.get_weights(), "slots": [v.numpy() for v in optimizer.variables], "losses": np.array(losses)}
