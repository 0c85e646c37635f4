"""`room_script.py DIR [plainly]`: a model that is large beside all else; keeps values, and peaks of memory in MB."""

import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

WIDTH, LAYERS, ROWS, STEPS = 2048, 8, 8, 2


class Peak(threading.Thread):
    """The most memory that this process has had, in MB; without pages of files, which the system takes back at will.

    How much of a library is mapped, 200 MB more or less, depends on how its pages came to be cached.
    """

    def __init__(self):
        super().__init__(daemon=True)
        self.mb = 0.0
        self.start()

    def run(self):
        while True:
            self.look()
            time.sleep(0.002)

    def look(self):
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        self.mb = max(self.mb, sum(int(status[kind].split()[0]) for kind in ("RssAnon", "RssShmem")) / 1e3)
        return self.mb


def main():
    directory, plainly = sys.argv[1], "plainly" in sys.argv
    _ = tf.ones(()) + 1
    peak, peaks = Peak(), {}
    base = peak.look()
    keras.utils.set_random_seed(0)
    with contextlib.nullcontext() if plainly else autodist.scope():
        dense = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(LAYERS)]
        model = keras.Sequential([keras.Input((WIDTH,)), *dense])
        optimizer = keras.optimizers.Adam(0.001)
        initial = model.layers[1].kernel.numpy()[::7, ::7].copy()
        peaks["built"] = peak.look() - base

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x) - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        random = np.random.default_rng(0)
        losses = [float(step(*random.normal(size=(2, ROWS, WIDTH)).astype(np.float32))) for _ in range(STEPS)]
        peaks["trained"] = peak.look() - base
    peaks["left"] = peak.look() - base
    name = os.environ.get("RANK", "alone")
    values = {f"value_{k}": v.numpy().ravel()[::7] for k, v in enumerate(model.variables + optimizer.variables)}
    np.savez(f"{directory}/{name}.npz", initial=initial, losses=losses, **values)
    Path(f"{directory}/{name}.json").write_text(json.dumps(peaks))


if __name__ == "__main__":
    main()
