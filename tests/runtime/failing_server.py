"""Training whose updates fail at their servers, some steps after the start: `failing_server.py [VARIABLES]`."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist

weights = [tf.Variable([[1.0]] * 4, name=f"w{k}") for k in range(int(sys.argv[1]) if sys.argv[1:] else 1)]


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_mean(tf.square(x @ w - y)) for w in weights])
    for w, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
        w.assign_sub(0.01 * tf.debugging.check_numerics(gradient, "no gradient to go by"))
    return loss


x = np.ones((8, 4), np.float32)
y = np.ones((8, 1), np.float32)
with autodist.scope():
    for k in range(60):
        if k == 20:
            print(f"steps: {k}", flush=True)
        step(x * (np.nan if k == 20 else 1), y)
