"""Save a large model in several ways, after a training step each time, and write the times as JSON.

Usage: checkpoint_training.py MEGABYTES ROUNDS OUTPUT

Beside the model that is trained in the scope there is a second one, made alike and never trained, which is what Keras
and TensorFlow save by themselves. Both are saved in turn, the order changes from round to round.
"""

import json
import sys
import tempfile
import threading
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

_LAYERS = 10


def make_model(megabytes):
    width = int((megabytes * 1e6 / 4 / _LAYERS) ** 0.5)
    layers = [keras.layers.Dense(width, activation="relu", kernel_initializer="zeros") for _ in range(_LAYERS)]
    model = keras.Sequential([keras.Input((width,)), *layers])
    model.compile(keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return model


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Peak:
    """The most resident memory while it is open, beyond what there was before."""

    def __enter__(self):
        self._before = self._peak = resident_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()

    @property
    def added_bytes(self):
        return self._peak - self._before

    def _watch(self):
        while not self._ended.wait(0.005):
            self._peak = max(self._peak, resident_bytes())


def save_weights(model, directory):
    model.save_weights(f"{directory}/model.weights.h5")


def save(model, directory):
    model.save(f"{directory}/model.keras")


def checkpoint(model, directory):
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(f"{directory}/checkpoint")


def measured(save_model, model):
    with tempfile.TemporaryDirectory() as directory, Peak() as peak:
        started, cpu_started = time.perf_counter(), time.process_time()
        save_model(model, directory)
        found = {"clock_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu_started}
    return found | {"added_bytes": peak.added_bytes}


def main():
    megabytes, rounds, output = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    ad = autodist.AutoDist()
    is_chief = ad.rank == 0
    found = {}
    with ad.scope():
        model = make_model(megabytes)
        plain = make_model(megabytes) if is_chief else None  # after the other, whose names are the same on all workers
        batch = np.ones((8, model.input_shape[1]), np.float32)
        for number in range(rounds + 1):
            for way in (save_weights, save, checkpoint):
                sides = [("plain", plain), ("autodist", model)]
                for side, saved in sides if number % 2 else reversed(sides):
                    if side == "autodist":
                        model.train_on_batch(batch, batch)
                    if is_chief:
                        time.sleep(1)  # until the other worker has ended its step too
                        figures = measured(way, saved)
                        if number:  # the first round warms up
                            found.setdefault(way.__name__, {}).setdefault(side, []).append(figures)
    if is_chief:
        output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
