"""Bring tensors from one layout to another between two workers; each writes what it sends in a call, says the kernel.

Usage: conversions.py DIRECTORY, by `autodist run`
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist
from autodist.testing import sent_bytes, wire_bytes

ROWS, COLUMNS, INNER = 100, 400, 4000
SIZE_BYTES = 4 * ROWS * COLUMNS
_CALLS = 4
_SETTLE_S = 0.3  # what was sent counts when it is acknowledged


def doubled(x):
    """Of an argument that is cut: what comes out is gathered."""
    return 2.0 * x


def times(x, y):
    """Cut along the inner dim: what comes out is a sum of two terms, put together."""
    return x @ y


def scattered(x, y, z):
    """The same, of which each replica needs its rows alone."""
    return tf.reduce_sum((x @ y) * z)


def turned(x):
    """Whole on each, of which each takes its part: nothing is sent."""
    return tf.reduce_sum(tf.square(x) * tf.fill([ROWS, COLUMNS], 2.0))


def across(x, y):
    """One cut by rows, the other by columns: replicas give each other what is in both their parts."""
    return tf.reduce_sum(x * y)


CONVERSIONS = {
    "rows to whole": (doubled, [(ROWS, COLUMNS)], (0,)),
    "columns to whole": (doubled, [(ROWS, COLUMNS)], (1,)),
    "rows to columns": (across, [(ROWS, COLUMNS), (ROWS, COLUMNS)], (0, 1)),
    "terms to whole": (times, [(ROWS, INNER), (INNER, COLUMNS)], (1, 0)),
    "terms to rows": (scattered, [(ROWS, INNER), (INNER, COLUMNS), (ROWS, COLUMNS)], (1, 0, 0)),
    "terms to columns": (scattered, [(ROWS, INNER), (INNER, COLUMNS), (ROWS, COLUMNS)], (1, 0, 1)),
    "whole to rows": (turned, [(ROWS, COLUMNS)], (0,)),
    "whole to columns": (turned, [(ROWS, COLUMNS)], (1,)),
}


def sent_in_a_call(step, arrays):
    for _ in range(2):
        step(*arrays)
    time.sleep(_SETTLE_S)
    before = wire_bytes()
    for _ in range(_CALLS):
        step(*arrays)
    time.sleep(_SETTLE_S)
    return sum(sent_bytes(before, wire_bytes()).values()) / _CALLS


def training():
    """A step of two large layers on a small batch, and the batch."""
    random = np.random.default_rng(0)
    shapes = ((512, 1024), (1024, 512))
    kernels = [tf.Variable(random.normal(size=s).astype(np.float32), name=f"w{k}") for k, s in enumerate(shapes)]

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ kernels[0]) @ kernels[1] - y) ** 2)
        for kernel, gradient in zip(kernels, tape.gradient(loss, kernels), strict=True):
            kernel.assign_sub(1e-5 * gradient)
        return loss

    return step, [random.normal(size=(128, 512)).astype(np.float32) for _ in range(2)]


def main():
    random = np.random.default_rng(0)
    found = {}
    step, batch = training()
    with autodist.scope(strategy="Tiled()"):
        found["training"] = sent_in_a_call(autodist.function(step), batch)
    with autodist.scope(strategy="AllReduce(communicator='tcp')"):
        for name, (function, shapes, dims) in CONVERSIONS.items():
            arrays = [random.normal(size=shape).astype(np.float32) for shape in shapes]
            found[name] = sent_in_a_call(autodist.function(function, arrays=dims), arrays)
    with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
