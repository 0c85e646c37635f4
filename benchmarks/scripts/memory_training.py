"""Train a few steps of a dense model and print the resident memory at several moments as JSON.

Usage: memory_training.py plain|autodist WIDTH
"""

import json
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import autodist

_MATRICES = 4


def resident(field):
    """A line of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def make_step(width):
    initial = tf.random_uniform_initializer(-0.01, 0.01, seed=1)
    weights = [tf.Variable(initial([width, width]), name=f"w{k}") for k in range(_MATRICES)]

    def step(x):
        with tf.GradientTape() as tape:
            hidden = x
            for weight in weights:
                hidden = tf.nn.relu(hidden @ weight)
            loss = tf.reduce_mean(tf.square(hidden))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    return weights, step


def train(step, weights, batch):
    moments = {"parameters": sum(weight.shape.num_elements() * 4 for weight in weights)}
    step(batch)
    moments["start"] = resident("VmHWM")
    for _ in range(4):
        step(batch)
    moments["steady"] = resident("VmRSS")
    for weight in weights:
        weight.numpy()
    moments["reading"] = resident("VmRSS")
    for _ in range(5):
        step(batch)
    moments["after"] = resident("VmRSS")
    return moments


def main():
    way, width = sys.argv[1], int(sys.argv[2])
    batch = np.random.default_rng(0).standard_normal((8, width), dtype=np.float32)
    if way == "plain":
        weights, step = make_step(width)
        moments = train(tf.function(step), weights, batch)
    else:
        ad = autodist.AutoDist()
        with ad.scope():
            weights, step = make_step(width)
            moments = train(ad.function(step), weights, batch)
    print(json.dumps(moments))


if __name__ == "__main__":
    main()
