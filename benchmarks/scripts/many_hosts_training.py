"""Steps that compute next to nothing and sum gradients of 2.7 MB; the chief writes how long blocks of them took.

Usage: many_hosts_training.py BLOCKS OUTPUT, by `autodist run`
"""

import json
import os
import sys

import numpy as np
import tensorflow as tf
from blocks import block

import autodist

_STEPS = 4
_VARIABLES, _FLOATS = 5, 135_000
_BATCH_SIZE = 64


def main():
    blocks, output = int(sys.argv[1]), os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[2])
    ad = autodist.AutoDist()
    with ad.scope():
        # Unlike numbers, as of a training: how much encoding saves depends on them.
        values = [tf.random.stateless_normal([_FLOATS], [1, number]) for number in range(_VARIABLES)]
        variables = [tf.Variable(value, name=f"weights_{number}") for number, value in enumerate(values)]

        @ad.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(x) * tf.add_n([tf.reduce_sum(tf.sin(v)) for v in variables])
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.01 * gradient)
            return loss

        batch = np.linspace(0.5, 1.5, _BATCH_SIZE, dtype=np.float32)
        block(step, batch, _STEPS)
        times = [block(step, batch, _STEPS) for _ in range(blocks)]
    if ad.rank == 0:
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
