"""TensorFlow 1: a graph, placeholders, an optimizer of compat.v1 and a session with feeds.

Kind: own loops
"""

import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(120)
x, y = rng.normal(size=(36, 4)).astype("float32"), rng.normal(size=(36, 1)).astype("float32")
v1 = tf.compat.v1
ad = autodist.AutoDist()
with tf.Graph().as_default(), ad.scope():
    v1.set_random_seed(3)
    inputs, labels = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 1])
    hidden = tf.tanh(inputs @ v1.get_variable("hidden", initializer=tf.constant(rng.normal(size=(4, 6)), tf.float32)))
    outputs = hidden @ v1.get_variable("out", initializer=tf.constant(rng.normal(size=(6, 1)), tf.float32))
    loss = tf.reduce_mean((outputs - labels) ** 2)
    train = v1.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=v1.train.get_or_create_global_step())
    session = ad.Session() if hasattr(ad, "Session") else v1.Session()
    with session:
        session.run(v1.global_variables_initializer())
        losses = []
        for begin in range(0, 36, 10):
            feeds = {inputs: x[begin : begin + 10], labels: y[begin : begin + 10]}
            losses.append(session.run([loss, train], feeds)[0])
        weights = session.run(v1.global_variables())
found = {"weights": weights, "losses": losses}
