"""Alternate blocks of steps by AutoDist, by Horovod by hand and without communication; the chief writes the times.

Usage: strategy_training.py convnet|dense ROUNDS OUTPUT, by `autodist run`
"""

import json
import os
import sys
import time

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

import autodist

_BATCH_SIZE = 64


def make_model(kind):
    keras.utils.set_random_seed(0)
    if kind == "dense":  # 10 million parameters
        layers = [keras.layers.Dense(1810, activation="relu") for _ in range(3)]
        return keras.Sequential([keras.Input((1810,)), *layers, keras.layers.Dense(10)])
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
            keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def make_step(kind, wrap_tape):
    model = make_model(kind)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        tape = wrap_tape(tape)
        # Horovod's tape knows TensorFlow's variables only, not those of Keras that wrap them.
        gradients = tape.gradient(loss, [variable.value for variable in model.trainable_variables])
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def block(step, batch, count):
    """Seconds per step, after two that are not counted."""
    for _ in range(2):
        step(*batch).numpy()
    started = time.perf_counter()
    for _ in range(count):
        step(*batch).numpy()
    return (time.perf_counter() - started) / count


def main():
    kind, rounds, output = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    count = 20 if kind == "convnet" else 4
    hvd.init()
    random = np.random.default_rng(0)
    x = random.standard_normal((_BATCH_SIZE, *make_model(kind).input_shape[1:]), dtype=np.float32)
    y = random.integers(0, 10, _BATCH_SIZE).astype(np.int32)
    half = slice(hvd.rank() * _BATCH_SIZE // 2, (hvd.rank() + 1) * _BATCH_SIZE // 2)
    own = x[half], y[half]
    plain = tf.function(make_step(kind, lambda tape: tape))
    by_hand = tf.function(make_step(kind, hvd.DistributedGradientTape))
    ad = autodist.AutoDist()
    ours = ad.function(make_step(kind, lambda tape: tape))

    def autodist_block():
        with ad.scope():
            return block(ours, (x, y), count)

    ways = {
        "plain": lambda: block(plain, own, count),
        "horovod": lambda: block(by_hand, own, count),
        "autodist": autodist_block,
    }
    times = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 == 0 else list(ways)[::-1]:
            hvd.allreduce(tf.zeros([1]), name="together")  # nobody starts a block while the other is still in the last
            times[way].append(ways[way]())
    if os.environ.get("RANK", "0") == "0":
        with open(output, "w") as file:
            json.dump(times, file)


if __name__ == "__main__":
    main()
