"""tf.train.Checkpoint and its manager in a custom loop; training goes on from the file with a new model.

Kind: saving
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(69)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(9)
ad = autodist.AutoDist()


def made():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.02)
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        return loss

    return model, optimizer, step, tf.train.Checkpoint(model=model, optimizer=optimizer)


with ad.scope():
    model, optimizer, step, checkpoint = made()
    losses = [step(*batch) for batch in ad.shard(data)]
    path = tf.train.CheckpointManager(checkpoint, "checkpoints", max_to_keep=2).save()
    model, optimizer, step, checkpoint = made()
    checkpoint.restore(tf.train.latest_checkpoint("checkpoints")).assert_existing_objects_matched()
    losses += [step(*batch) for batch in ad.shard(data)]
found = {"weights": model.get_weights(), "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
