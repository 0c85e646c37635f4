"""Trains variables of narrow dtypes: the outputs of a step and the weights, by rank. All but the chief come late."""

import os
import sys
import time

import numpy as np
import tensorflow as tf

import autodist

if os.environ["RANK"] != "0":
    time.sleep(float(os.environ.get("LATE_S", "0")))
with autodist.scope() as ad:
    dense = tf.Variable(tf.cast(tf.random.stateless_normal([4, 3], [1, 2]), tf.bfloat16), name="dense")
    table = tf.Variable(tf.cast(tf.random.stateless_normal([5, 3], [3, 4]), tf.bfloat16), name="table")

    @ad.function
    def step(ids, y):
        with tf.GradientTape() as tape:
            predicted = tf.reduce_sum(tf.gather(table, ids) @ tf.transpose(dense), 1)
            loss = tf.reduce_mean(tf.square(tf.cast(predicted, tf.float32) - y))
        for variable, gradient in zip([dense, table], tape.gradient(loss, [dense, table]), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(0.125 * gradient.values, gradient.indices))
            else:
                variable.assign_sub(0.125 * gradient)
        return loss, predicted > 0, tf.cast(ids, tf.int8)

    ids = np.array([0, 1, 2, 3, 4], np.int32)
    outputs = [step(ids, np.zeros(5, np.float32)) for _ in range(8)]
losses = [float(loss) for loss, _, _ in outputs]
assert losses[-1] < 0.5 * losses[0], losses
assert outputs[0][1].shape == (5,)
assert outputs[0][2].numpy().tolist() == ids.tolist()
np.savez(f"{sys.argv[1]}{ad.rank}.npz", *(v.numpy().astype(np.float32) for v in (dense, table)))
