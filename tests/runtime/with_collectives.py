"""A training script of which one step has TensorFlow's collectives and the other one servers, in one scope.

The tests run it undistributed and on two workers.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import contextlib
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import tensorflow as tf

import autodist
from autodist.strategies import AllReduce, PSLoadBalancing, StrategyBuilder

RANK = int(os.environ.get("RANK", "0"))


@dataclass(frozen=True)
class ByStep(StrategyBuilder):
    """Collectives where one variable is trained, else servers."""

    name: ClassVar[str] = "ByStep"

    def build(self, graph, spec):
        of_one = AllReduce(communicator="collective")
        return (of_one if len(graph.trainable) == 1 else PSLoadBalancing()).build(graph, spec)


def steps_of(table, dense, weight):
    @tf.function
    def served(ids, y):
        with tf.GradientTape() as tape:
            total = tf.zeros((tf.shape(ids)[0], 4))
            for k in tf.range(3):  # in a loop rows are asked for
                total += tf.gather(table, ids[:, k])
            loss = tf.reduce_mean(tf.square(total @ dense - y))
        for variable, gradient in zip([table, dense], tape.gradient(loss, [table, dense]), strict=True):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    @tf.function
    def reduced(ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(weight * y - 1.0))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    look = tf.function(lambda ids, y: weight * tf.reduce_sum(tf.gather(table, ids)))
    return served, reduced, look


def main(scope):
    random = np.random.default_rng(3)
    with scope():
        table = tf.Variable(random.normal(size=(40, 4)).astype("float32"))
        dense = tf.Variable(random.normal(size=(4, 1)).astype("float32"))
        weight = tf.Variable(1.0)
        served, *later = steps_of(table, dense, weight)
        seen = []
        for number in range(5):
            batch = random.integers(0, 40, (6, 3)), random.normal(size=(6, 1)).astype("float32")
            seen += [float(step(*batch)) for step in (served, *(later if number else ()))]
            seen.append(float(tf.reduce_sum(table)))
            if number == 3:
                table.assign(table * 0.5)
        return np.array(seen), table.numpy(), dense.numpy(), weight.numpy()


if __name__ == "__main__":
    np.savez(f"{sys.argv[1]}{RANK}.npz", *main(autodist.AutoDist(strategy=ByStep()).scope))
else:
    plain = main(contextlib.nullcontext)
