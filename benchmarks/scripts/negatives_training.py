"""Time steps of two towers whose loss compares all rows of a batch: by AutoDist, or by hand with Horovod.

Usage: negatives_training.py WAY ROUNDS OUTPUT, by `autodist run`; WAY is autodist or horovod
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
from blocks import block

import autodist
from autodist.testing import sent_bytes, wire_bytes

_STEPS, _ROWS, _FEATURES, _WIDTH = 2, 4096, 32, 256


def loss_of(users, items, first):
    """Each row's own item beside all others."""
    scores = tf.matmul(users, items, transpose_b=True)
    own = first + tf.range(tf.shape(scores)[0])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(own, scores)


def by_autodist():
    weights, ad = [*map(_variable, range(2))], autodist.AutoDist()

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            users, items = tf.tanh(x @ weights[0]), tf.tanh(y @ weights[1])
            loss = tf.reduce_mean(loss_of(users, items, 0))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return ad, step


def _variable(number):
    return tf.Variable(0.1 * tf.random.stateless_normal([_FEATURES, _WIDTH], [1, number]), name=f"tower_{number}")


def by_hand():
    """As Horovod's users write it: the items are gathered, gradient included, and gradients are averaged."""
    import horovod.tensorflow as hvd

    hvd.init()
    weights = [*map(_variable, range(2))]
    share = _ROWS // hvd.size()

    @tf.function
    def step(x, y):
        own = slice(hvd.rank() * share, (hvd.rank() + 1) * share)
        with tf.GradientTape() as tape:
            users, items = tf.tanh(x[own] @ weights[0]), hvd.allgather(tf.tanh(y[own] @ weights[1]))
            loss = tf.reduce_mean(loss_of(users, items, hvd.rank() * share))
        gradients = [hvd.allreduce(gradient) for gradient in tape.gradient(loss, weights)]
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def _train_something(ad):
    """A step in a scope, without which a run has gone wrong."""
    weight = _variable(0)

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ weight)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    with ad.scope():
        step(np.ones([8, _FEATURES], np.float32))


def main():
    way, rounds, output = sys.argv[1], int(sys.argv[2]), os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[3])
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((_ROWS, _FEATURES), dtype=np.float32) for _ in range(2))
    ad, step = by_autodist() if way == "autodist" else (autodist.AutoDist(), by_hand())

    def measured():
        before = wire_bytes()
        time_s = block(lambda batch: step(*batch), (x, y), _STEPS)
        return time_s, sum(sent_bytes(before, wire_bytes()).values()) / _STEPS

    if way == "autodist":
        with ad.scope():
            measured()
            found = [measured() for _ in range(rounds)]
    else:
        measured()
        found = [measured() for _ in range(rounds)]
        _train_something(ad)
    if ad.rank == 0:
        with open(output, "w") as file:
            json.dump({"times": [time for time, _ in found], "bytes": [sent for _, sent in found]}, file)


if __name__ == "__main__":
    main()
