"""`room_script.py DIR [plainly]`: a model that is large beside all else; keeps values, and peaks of memory in MB."""

import contextlib
import json
import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

WIDTH, LAYERS, ROWS, STEPS = 2048, 8, 8, 2


def peak_mb():
    """The most memory that this process has had."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1e3


def main():
    directory, plainly = sys.argv[1], "plainly" in sys.argv
    _ = tf.ones(()) + 1
    base, peaks = peak_mb(), {}
    keras.utils.set_random_seed(0)
    with contextlib.nullcontext() if plainly else autodist.scope():
        dense = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
        model = keras.Sequential([keras.Input((WIDTH,)), *dense])
        optimizer = keras.optimizers.Adam(0.001)
        initial = model.layers[1].kernel.numpy()[::7, ::7].copy()
        peaks["built"] = peak_mb() - base

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        random = np.random.default_rng(0)
        losses = [float(step(*random.normal(size=(2, ROWS, WIDTH)).astype(np.float32))) for _ in range(STEPS)]
        peaks["trained"] = peak_mb() - base
    peaks["left"] = peak_mb() - base
    name = os.environ.get("RANK", "alone")
    values = {f"value_{k}": v.numpy().ravel()[::7] for k, v in enumerate(model.variables + optimizer.variables)}
    np.savez(f"{directory}/{name}.npz", initial=initial, losses=losses, **values)
    Path(f"{directory}/{name}.json").write_text(json.dumps(peaks))


if __name__ == "__main__":
    main()
