"""Alternate blocks of steps by AutoDist and without communication; the chief writes times and bytes.

Usage: network_training.py ROUNDS OUTPUT, by `autodist run`
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

import autodist
from autodist.testing import sent_bytes, wire_bytes

_STEPS = 3
_WIDTH = 1024
_LAYERS = 10
_BATCH_SIZE = 16


def make_step():
    """A step on 40 MB of parameters that takes little computing."""
    weights = [
        tf.Variable(0.03 * tf.random.stateless_normal([_WIDTH, _WIDTH], [1, k]), name=f"layer_{k}")
        for k in range(_LAYERS)
    ]

    def step(x):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.tanh(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def block(step, batch):
    """Seconds per step."""
    started = time.perf_counter()
    for _ in range(_STEPS):
        step(batch).numpy()
    return (time.perf_counter() - started) / _STEPS


def main():
    rounds = int(sys.argv[1])
    output = os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[2])  # which comes back to the launching host
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _WIDTH), dtype=np.float32)
    ad = autodist.AutoDist()
    plain, ours = tf.function(make_step()), ad.function(make_step())
    times = {"autodist": [], "plain": []}
    own = batch[: _BATCH_SIZE // 2]
    block(plain, own)
    with ad.scope():
        block(ours, batch)
    sent = 0
    for _ in range(rounds):  # inside the scope, the plain step would be distributed as well
        times["plain"].append(block(plain, own))
        with ad.scope():
            before = wire_bytes()
            times["autodist"].append(block(ours, batch))
            sent += sum(sent_bytes(before, wire_bytes()).values())
    if ad.rank == 0:
        with open(output, "w") as file:
            json.dump(times | {"sent_bytes_per_step": sent / (rounds * _STEPS)}, file)


if __name__ == "__main__":
    main()
