"""Asynchronous and stale servers: who waits for whom, and what comes out."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import cluster

HOSTS = cluster.spec(2, 2)
TWO = ("h0:CPU:0", "h1:CPU:0")
THREE = ("h0:CPU:0", "h1:CPU:0", "h1:CPU:1")
X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = X @ np.float32([[1.0], [-2.0], [0.5], [3.0]])
STALE = {f"staleness {k}": {"staleness": k} for k in (1, 3)}
RELAXED = {**STALE, "async": {"sync": False}}


def least_squares(rate=0.2, optimizer=None):
    w = tf.Variable(tf.zeros([4, 1]), name="w")
    chosen = (optimizer or keras.optimizers.SGD)(rate)
    chosen.build([w])

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w - y))
        chosen.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step


def running(step, arrays, options, replicas=TWO, destinations=("h0:CPU:0",), hosts=HOSTS):
    return cluster.Cluster(step, arrays, lambda g: cluster.served(g, replicas, list(destinations), **options), hosts)


def train(options, steps=30, optimizer=None, rate=0.2, **where):
    """Take steps in lock-step rounds of the test; returns the loss on all data in the end, and w."""
    made = running(least_squares(rate, optimizer), (X, Y), options, **where)
    for _ in range(steps):
        made.step(X, Y)
    for member in made.members:
        member.drain([steps] * len(made.members))
    (w,) = made.values()["w"]
    made.close()
    return float(np.mean(np.square(X @ w - Y))), w


@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam])
@pytest.mark.parametrize("options", RELAXED)
def test_converges(options, optimizer):
    loss, _ = train(RELAXED[options], 60, optimizer)
    start = float(np.mean(np.square(Y)))
    assert loss < 0.02 * start, (loss, start)
