"""Train the model of examples/digits.py on several kinds of data, and write how long steps took and waited for batches.

Usage: input_training.py OUTPUT

ready      one batch that is in memory
digits     the data of the example
prepared   the same, and each batch takes two thirds of a step to prepare
"""

import json
import statistics
import sys
import time
from pathlib import Path

import keras
import tensorflow as tf

import autodist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
import digits

_BATCH = 64
_EPOCHS = 6


class Steps(keras.callbacks.Callback):
    """When each batch was asked for, came, and was done with."""

    def __init__(self, waits):
        super().__init__()
        self._waits = waits
        self.found = []

    def on_train_batch_begin(self, batch, logs=None):
        self._batch, self._began = batch, time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        step_s = time.perf_counter() - self._began
        self.found.append({"wait_s": self._waits[-1], "step_s": step_s, "is_first": self._batch == 0})


def note_waits():
    """From now on the seconds that each `next` of an iterator over a dataset takes."""
    waits = []
    taken = type(iter(tf.data.Dataset.range(1))).__next__

    def timed(iterator):
        began = time.perf_counter()
        try:
            return taken(iterator)
        finally:
            waits.append(time.perf_counter() - began)

    type(iter(tf.data.Dataset.range(1))).__next__ = timed
    return waits


def slowed(dataset, by_s):
    def slow(x, y):
        time.sleep(by_s)
        return x, y

    def prepare(x, y):
        prepared = tf.numpy_function(slow, [x, y], [x.dtype, y.dtype])
        return tuple(tf.ensure_shape(new, old.shape) for new, old in zip(prepared, (x, y), strict=True))

    return dataset.map(prepare)


def main():
    output = Path(sys.argv[1])
    keras.utils.set_random_seed(0)
    data, _ = digits.load_datasets(_BATCH, 0)
    ready = tf.data.Dataset.from_tensors(next(iter(data))).repeat(len(data))
    waits = note_waits()
    found = {}
    ad = autodist.AutoDist()
    with ad.scope():
        model = digits.build_model()
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(keras.optimizers.Adam(3e-3), loss=loss, metrics=["accuracy"])

        def train(dataset):
            steps = Steps(waits)
            model.fit(dataset, epochs=_EPOCHS, verbose=0, callbacks=[steps])
            return steps.found[1:]  # the first is traced

        found["ready"] = train(ready)
        found["digits"] = train(data)
        step_s = statistics.median(step["step_s"] for step in found["ready"])
        found["prepared"] = train(slowed(data, step_s * 2 / 3))
    if ad.rank == 0:
        output.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
