"""Trains by a builder that has strategies tried: one can't be compiled, one ends a worker, two are good."""

import os
import signal
import sys
from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

import autodist
from autodist.strategies import AllReduce, PartitionedPS, PSLoadBalancing, StrategyBuilder

STEPS = 24
DEADLY = 10
"""A step of the second one that runs: each has seven."""


@dataclass(frozen=True)
class Trying(StrategyBuilder):
    """Proposes them."""

    name = "Trying"

    @property
    def tries(self):
        return 4

    def build(self, graph, spec):
        return self.candidates(graph, spec)[1]

    def candidates(self, graph, spec):
        builders = (
            AllReduce(communicator="tcp"),
            PSLoadBalancing(communicator="tcp"),
            PartitionedPS(min_shard_bytes=0, communicator="tcp"),
        )
        good = [builder.build(graph, spec) for builder in builders]
        return replace(good[0], variables=good[0].variables[:1]), *good


def main(scope, is_run):
    tf.keras.utils.set_random_seed(5)
    w, b = tf.Variable(tf.random.normal([4, 3])), tf.Variable(tf.zeros([3]))
    x = np.random.default_rng(0).normal(size=(16, 4)).astype("float32")
    with scope() as ad:

        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x @ w + b - 1.0) ** 2)
            for variable, gradient in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
                variable.assign_sub(0.05 * gradient)
            return loss

        run = ad.function(step) if is_run else step
        for number in range(1, STEPS + 1):
            if is_run and number == DEADLY and (os.environ["AUTODIST_ATTEMPT"], os.environ["RANK"]) == ("0", "1"):
                os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does when memory runs out
            run(x)
    return {"w": w.numpy(), "b": b.numpy()}


if __name__ == "__main__":
    found = main(lambda: autodist.scope(strategy=Trying()), is_run=True)
    np.savez(f"{sys.argv[1]}{os.environ['RANK']}", **found)
