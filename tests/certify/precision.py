"""Trains in mixed precision under several strategies, or on one device in parts; the chief writes the weights.

`autodist run precision.py -- DIRECTORY STRATEGY...` writes `POLICY/STRATEGY.npz`, `python precision.py DIRECTORY PARTS`
writes `POLICY/parts.npz`, `POLICY/whole.npz` and `POLICY/initial.npz`.
"""

import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import autodist
from autodist.runtime.data import part_of
from certify.data import BATCH_SIZES
from certify.optimizers.train import arrays, model

POLICIES = ("mixed_bfloat16", "mixed_float16")
SIZE, COUNT = max(BATCH_SIZES), sum(BATCH_SIZES)


def prepared(policy):
    """A model with its optimizer, the same every time; float16 gets a loss scale that overflows in the first step."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy(policy)
    network, optimizer = model(), keras.optimizers.Adam(0.01, epsilon=1e-2)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**17)
    network.compile(optimizer, "mse")
    optimizer.build(network.trainable_variables)
    return network


def values(network):
    """Weights and slots by name."""
    return {v.path: np.asarray(v.value) for v in (*network.weights, *network.optimizer.variables)}


def distributed(policy, strategy):
    with autodist.scope(strategy=strategy):
        network = prepared(policy)
        (words, features), y = arrays()
        network.fit((words, features), y, batch_size=SIZE, shuffle=False, verbose=0, epochs=2)
    return values(network)


def in_parts(policy, count):
    """One device that takes the gradients of the parts of each batch one after another, and adds them up in float32."""
    network = prepared(policy)
    variables, optimizer = [v.value for v in network.trainable_variables], network.optimizer
    gradients_of = tf.function(gradients_in(network, variables))
    apply = tf.function(lambda gradients: optimizer.apply(gradients, network.trainable_variables))
    for begin in [*range(0, COUNT, SIZE)] * 2:
        (words, features), y = arrays()
        batch = [tf.constant(array[begin : begin + SIZE]) for array in (words, features, y)]
        total = len(batch[0])
        bounds = [part_of(total, count, k, k + 1) for k in range(count)]
        found = [gradients_of(*(a[b:e] for a in batch), tf.constant((e - b) / total, tf.float32)) for b, e in bounds]
        apply([added(parts) for parts in zip(*found, strict=True)])
    return values(network)


def gradients_in(network, variables):
    def gradients(words, features, y, share):
        with tf.GradientTape() as tape:
            predicted = tf.cast(network((words, features), training=True), tf.float32)
            loss = network.optimizer.scale_loss(tf.reduce_mean(tf.square(y - predicted)))
        found = tape.gradient(loss, variables)
        return [
            tf.IndexedSlices(g.values * share, g.indices, g.dense_shape)
            if isinstance(g, tf.IndexedSlices)
            else g * share
            for g in found
        ]

    return gradients


def added(parts):
    if not isinstance(parts[0], tf.IndexedSlices):
        return tf.add_n(parts)
    rows = [tf.concat([getattr(part, name) for part in parts], 0) for name in ("values", "indices")]
    return tf.IndexedSlices(*rows, parts[0].dense_shape)


def fitting(policy, strategies):
    """A loss scale couples all variables, so that they need one home; a plan that mixes homes is refused."""
    return [s for s in strategies if policy == "mixed_bfloat16" or not s.endswith(".yml")]


def alone(policy, parts):
    """What one device makes of so many parts of each batch, and of whole ones."""
    return {
        "parts": in_parts(policy, parts),
        "whole": in_parts(policy, 1),
        "initial": values(prepared(policy)),
    }


def write(directory, found):
    directory.mkdir(parents=True, exist_ok=True)
    for name, arrays_of in found.items():
        np.savez(directory / f"{name}.npz", **{k: v.astype(np.float32) for k, v in arrays_of.items()})


def main():
    directory, rest = pathlib.Path(sys.argv[1]), sys.argv[2:]
    for policy in POLICIES:
        if rest[0].isdecimal():
            write(directory / policy, alone(policy, int(rest[0])))
            continue
        own = fitting(policy, rest)
        found = {pathlib.Path(s).stem.partition("(")[0]: distributed(policy, s) for s in own}
        with autodist.scope() as ad:
            is_chief = ad.rank == 0
        if is_chief:
            write(directory / policy, found)


if __name__ == "__main__":
    main()
