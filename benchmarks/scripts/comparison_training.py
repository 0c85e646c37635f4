"""Alternate blocks of steps in which workers compare their batches, and in which they don't; the chief writes times.

Usage: comparison_training.py ROUNDS OUTPUT, by `autodist run`
"""

import contextlib
import json
import sys
import time
from unittest import mock

import numpy as np
import tensorflow as tf

import autodist
from autodist.kernels import _joins

_BATCH_SIZE, _FEATURES = 256, 1024  # 1 MB
_WIDTH, _LAYERS = 128, 3
_STEPS = 20


def make_step():
    weights = [
        tf.Variable(0.03 * tf.random.stateless_normal([_FEATURES if k == 0 else _WIDTH, _WIDTH], [1, k]))
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


def compiled(is_compared, batch):
    """A scope and its step, compiled with the comparison or without."""
    ad = autodist.AutoDist()
    step = ad.function(make_step())
    without = (
        contextlib.nullcontext() if is_compared else mock.patch.object(_joins, "compare_batches", return_value=None)
    )
    with ad.scope(), without:
        if not is_compared:
            ad._engine._batches.fingerprint = lambda _: 0
        block(step, batch)
    return ad, step


def block(step, batch):
    """Seconds per step."""
    started = time.perf_counter()
    for _ in range(_STEPS):
        step(batch)
    return (time.perf_counter() - started) / _STEPS


def main():
    rounds, output = int(sys.argv[1]), sys.argv[2]
    batch = np.random.default_rng(0).standard_normal((_BATCH_SIZE, _FEATURES), dtype=np.float32)
    ways = {"compared": compiled(True, batch), "not compared": compiled(False, batch)}
    times = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 else reversed(ways):
            ad, step = ways[name]
            with ad.scope():
                times[name].append(block(step, batch))
    if ways["compared"][0].rank == 0:
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
