"""`slow_links.py DIRECTORY STRATEGY`: trains a wide model; each worker keeps its weights, and what it sent per step."""

import os
import sys
import time

import numpy as np
import tensorflow as tf

import autodist
from autodist.testing import sent_bytes, wire_bytes

STEPS = 4
SETTLE_S = 0.5  # what was sent counts when it is acknowledged


def main():
    directory, strategy = sys.argv[1:]
    random = np.random.default_rng(0)
    with autodist.scope(strategy=strategy) as ad:
        table = tf.Variable(random.normal(size=(500, 64)).astype(np.float32), name="table")
        kernel = tf.Variable(random.normal(size=(64, 900)).astype(np.float32), name="kernel")

        @ad.function
        def step(ids, y):
            with tf.GradientTape() as tape:
                rows = tf.nn.embedding_lookup(table, ids)
                loss = tf.reduce_mean((tf.tanh(rows @ kernel) - y) ** 2)
            of_table, of_kernel = tape.gradient(loss, [table, kernel])
            table.scatter_sub(tf.IndexedSlices(0.1 * of_table.values, of_table.indices))
            kernel.assign_sub(0.1 * of_kernel)
            return loss

        ids, y = random.integers(500, size=256).astype(np.int32), random.normal(size=(256, 900)).astype(np.float32)
        before = [table.numpy(), kernel.numpy()]
        step(ids, y)
        time.sleep(SETTLE_S)
        begun = wire_bytes()
        for _ in range(STEPS):
            step(ids, y)
        time.sleep(SETTLE_S)
        sent = sum(sent_bytes(begun, wire_bytes()).values()) / STEPS
        after = [table.numpy(), kernel.numpy()]
        moved = [np.abs(a - b).max() for a, b in zip(after, before, strict=True)]
        np.savez(f"{directory}/{os.environ['RANK']}.npz", sent=sent, moved=moved, table=after[0], kernel=after[1])


if __name__ == "__main__":
    main()
