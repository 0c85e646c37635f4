"""`tiles_of_auto.py DIR [plainly]`: a scope, and one that combines gradients of replicas; keeps what steps give."""

import contextlib
import os
import sys

import numpy as np
import tensorflow as tf

import autodist

WIDTH, ROWS, STEPS = 2048, 64, 3


def trained(name, random):
    """What steps give and leave, by name."""
    values = [random.normal(size=(WIDTH, WIDTH)).astype(np.float32) / 45 for _ in range(2)]
    variables = [tf.Variable(value, name=f"{name}_{k}") for k, value in enumerate(values)]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.nn.relu(x @ variables[0]) @ variables[1] - y) ** 2)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.5 * gradient)
        return loss

    kept = {}
    for number, (x, y) in enumerate(random.normal(size=(STEPS, 2, ROWS, WIDTH)).astype(np.float32)):
        kept[f"{name}_loss_{number}"] = np.asarray(step(x, y))
        kept[f"{name}_after_{number}"] = variables[0].numpy()  # the others may still be in the step
    kept.update((f"{name}_{k}", variable.numpy()) for k, variable in enumerate(variables))
    return kept | {f"{name}_moved": np.array([np.abs(kept[f"{name}_{k}"] - values[k]).max() for k in range(2)])}


def main():
    directory, random, kept = sys.argv[1], np.random.default_rng(0), {}
    for name, options in (("plain", {}), ("combined", {"gradient_reduction": "mean"})):
        with contextlib.nullcontext() if "plainly" in sys.argv else autodist.scope(**options):
            kept |= trained(name, random)
    np.savez(f"{directory}/{os.environ.get('RANK', 'alone')}.npz", **kept)


if __name__ == "__main__":
    main()
