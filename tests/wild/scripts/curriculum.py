"""A curriculum: sequences grow longer from epoch to epoch; a flag and a weight are arguments of the step.

Kind: own loops
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(115)
x = rng.normal(size=(26, 9, 3)).astype("float32")
ad = autodist.AutoDist()
with ad.scope():
    cell = keras.layers.GRU(5, return_sequences=True)
    head = keras.layers.Dense(3)
    cell.build((None, None, 3))
    head.build((None, None, 5))
    optimizer = keras.optimizers.RMSprop(0.01)
    variables = cell.trainable_variables + head.trainable_variables

    @ad.function
    def step(x, weight, smooth):
        with tf.GradientTape() as tape:
            forecast = head(cell(x[:, :-1], training=True))
            loss = tf.reduce_mean((forecast - x[:, 1:]) ** 2)
            if smooth:
                loss += weight * tf.reduce_mean((forecast[:, 1:] - forecast[:, :-1]) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = []
    for epoch, length in enumerate([4, 6, 9]):
        data = tf.data.Dataset.from_tensor_slices(x[:, :length]).batch(8)
        losses += [step(batch, tf.constant(0.1 * epoch), epoch > 0) for batch in ad.shard(data)]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
