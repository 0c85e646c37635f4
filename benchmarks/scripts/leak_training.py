"""Take many steps of a small training and write the resident memory along the way as JSON, one file per worker.

Usage: leak_training.py plain|autodist WAY STEPS DIRECTORY, where the WAY is

fit         one `fit`, whose epochs end with a smaller batch and a validation
refit       a new `fit` for every 50 steps
loop        a custom loop, with an evaluation every 500 steps
"""

import contextlib
import gc
import json
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

_FEATURES, _WIDTH, _BATCH = 64, 128, 32
_SAMPLES = 40


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Memory(keras.callbacks.Callback):
    """Resident bytes every so many steps."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.taken = 0
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        self.taken += 1
        if self.taken % (self.steps // _SAMPLES) == 0:
            gc.collect()
            self.found.append((self.taken, resident_bytes()))


def make_model():
    model = keras.Sequential(
        [
            keras.Input((_FEATURES,)),
            *(keras.layers.Dense(_WIDTH, activation="relu") for _ in range(3)),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse", metrics=["mae"])
    return model


def make_dataset(batches):
    """So many batches, the last of them smaller."""
    random = np.random.default_rng(0)
    x = random.standard_normal((_BATCH * batches - _BATCH // 2, _FEATURES), dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(1000, seed=0).batch(_BATCH)


def fit(model, memory):
    model.fit(
        make_dataset(50), epochs=memory.steps // 50, validation_data=make_dataset(3), verbose=0, callbacks=[memory]
    )


def refit(model, memory):
    dataset = make_dataset(50)
    for _ in range(memory.steps // 50):
        model.fit(dataset, verbose=0, callbacks=[memory])


def loop(model, memory):
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    held_out = make_dataset(3)
    for number, (x, y) in enumerate(memory.shard(make_dataset(50).repeat(memory.steps // 50))):
        float(step(x, y))
        memory.on_train_batch_end(number)
        if number % 500 == 499:
            model.evaluate(held_out, verbose=0)


def main():
    kind, way, steps, directory = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    memory = Memory(steps)
    ad = autodist.AutoDist() if kind == "autodist" else None
    with ad.scope() if ad else contextlib.nullcontext():
        memory.shard = ad.shard if ad else iter
        {"fit": fit, "refit": refit, "loop": loop}[way](make_model(), memory)
    (directory / f"memory.{ad.rank if ad else 0}").write_text(json.dumps(memory.found))


if __name__ == "__main__":
    main()
