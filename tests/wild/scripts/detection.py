"""Detection: boxes assigned to cells by where, gather_nd and scatter; losses divided by the number of boxes.

Kind: losses
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(208)
x, boxes = rng.normal(size=(46, 6)).astype("float32"), rng.uniform(size=(46, 3, 2)).astype("float32")
real = rng.uniform(size=(46, 3)) < 0.6
ad = autodist.AutoDist()
with ad.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(12, "tanh"), keras.layers.Dense(15)])

    def loss_of(a, box, is_real):
        cells = tf.reshape(model(a), [-1, 5, 3])
        found = tf.where(is_real)
        wanted = tf.gather_nd(box, found)
        place = tf.stack([found[:, 0], tf.minimum(tf.cast(5 * wanted[:, 0], tf.int64), 4)], axis=1)
        ones = tf.ones_like(wanted[:, 0])
        there = tf.tensor_scatter_nd_max(tf.zeros([tf.shape(a)[0], 5]), place, ones)
        count = tf.maximum(1.0, tf.reduce_sum(ones))
        objects = tf.nn.sigmoid_cross_entropy_with_logits(there, cells[..., 0])
        misses = tf.square(tf.gather_nd(cells, place)[:, 1:] - wanted)
        return (tf.reduce_sum(objects) + tf.reduce_sum(misses)) / count

    optimizer, variables = keras.optimizers.SGD(0.02), model.trainable_variables

    @ad.function
    def step(a, box, is_real):
        with tf.GradientTape() as tape:
            loss = loss_of(a, box, is_real)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    data = ad.shard(tf.data.Dataset.from_tensor_slices((x, boxes, real)).batch(9))
    losses = [step(*batch) for batch in data]
found = {"weights": [v.numpy() for v in variables], "slots": [v.numpy() for v in optimizer.variables], "losses": losses}
