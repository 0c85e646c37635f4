"""The learning rate is assigned between steps of a custom loop, momentum is reset, weights are clipped.

Kind: optimizers
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(75)
x, y = rng.normal(size=(44, 4)).astype("float32"), rng.normal(size=(44, 1)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    rate = tf.Variable(1.0, trainable=False)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        gradients = [rate * g for g in tape.gradient(loss, model.trainable_variables)]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        for variable in model.trainable_variables:
            variable.assign(tf.clip_by_value(variable, -0.7, 0.7))
        return loss

    losses = []
    for k, batch in enumerate(ad.shard(tf.data.Dataset.from_tensor_slices((x, y)).batch(7))):
        losses.append(float(step(*batch)))
        rate.assign(0.9**k)
        if k == 2:
            optimizer.learning_rate = 0.03
            for slot in optimizer.variables[2:]:
                slot.assign(tf.zeros_like(slot))
found = {"weights": model.get_weights(), "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
