"""Train a few steps of a large model by one of several systems, in limited memory, and tell the peaks of memory.

Usage: limited_training.py SYSTEM MODEL STEPS LIMIT_MB ADDRESSES DIRECTORY, by `autodist run`; SYSTEM is one of
`peer_training.py`. LIMIT_MB is what the process may have beyond what imports take, 0 for any amount: it is killed if it
has more. Each worker writes RANK.json.
"""

import json
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from blocks import attention
from peer_training import RANK, system_named

layers = keras.layers
CHANNELS = 1024
VOCABULARY, WIDTH, LENGTH = 8_000, 2816, 16


def perceptron(width=4096):
    """Four weights of 4096 x 4096: 268 MB."""
    return keras.Sequential([keras.Input((width,)), *(layers.Dense(width, activation="relu") for _ in range(4))])


def tiny():
    """Next to nothing: what steps take without a model."""
    return perceptron(16)


def convolutions():
    """Seven of 3 x 3 over 1024 channels, on images of 4 x 4: 241 MB."""
    body = [layers.Conv2D(CHANNELS, 3, padding="same", activation="relu") for _ in range(7)]
    return keras.Sequential([keras.Input((4, 4, 256)), *body, layers.GlobalAveragePooling2D(), layers.Dense(CHANNELS)])


def transformer():
    """A layer of attention over 2816 numbers, and a table of 8,000 words that go in and come out: 471 MB."""
    given, table = keras.Input((LENGTH,), dtype="int32"), layers.ReversibleEmbedding(VOCABULARY, WIDTH)
    hidden = attention(layers.LayerNormalization()(table(given)), 1, 8, WIDTH)
    return keras.Model(given, table(hidden, reverse=True))


MODELS = {
    "perceptron": (perceptron, 16),
    "convolutions": (convolutions, 4),
    "transformer": (transformer, 4),
    "tiny": (tiny, 16),
}
"""With the examples of a batch."""


class Training:
    """A model with Adam, in the words that all systems take."""

    def __init__(self, name):
        make, self.rows = MODELS[name]
        self.has_words = name == "transformer"
        # Words are learned by heart in one large step, and what is left of a loss then is rounding.
        self.model, self.optimizer = make(), keras.optimizers.Adam(1e-5 if self.has_words else 1e-3)
        self.variables = self.model.trainable_variables

    def batch(self, number):
        numbers = np.random.default_rng(number)
        if self.has_words:
            return [numbers.integers(0, VOCABULARY, (self.rows, LENGTH)).astype(np.int32) for _ in range(2)]
        shapes = (self.model.input_shape[1:], self.model.output_shape[1:])
        return [numbers.standard_normal((self.rows, *shape), dtype=np.float32) for shape in shapes]

    def loss_of(self, x, y):
        found = self.model(x, training=True)
        if self.has_words:
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=found))
        return tf.reduce_mean(tf.square(found - y))

    def step(self, x, y):
        with tf.GradientTape() as tape:
            loss = self.loss_of(x, y)
        self.optimizer.apply(tape.gradient(loss, self.variables), self.variables)
        return loss


def resident(field):
    """A line of /proc/self/status in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def limited(limit_mb, directory):
    """Have another process end this one when it has more; what is in mapped files is not counted."""
    watch = str(Path(__file__).with_name("memory_watch.py"))
    before_mb = resident("RssAnon") / 1e6
    subprocess.Popen([sys.executable, watch, str(before_mb), str(limit_mb), f"{directory}/{RANK}.watched"])


def main():
    name, model, steps, limit_mb, addresses, directory = sys.argv[1:]
    if name != "mirrored":  # which has to come before all operations
        _ = tf.ones(()) + 1
    before = resident("VmHWM")
    limited(float(limit_mb), directory)
    found = {}
    keras.utils.set_random_seed(0)
    system = system_named(name, lambda: Training(model), addresses.split(","))
    found["parameters"] = sum(int(np.prod(v.shape)) * 4 for v in system.training.variables)
    found["built"] = resident("VmHWM") - before
    with system.scope():
        batch = system.batch(0)
        losses = []
        for number in range(int(steps)):
            losses.append(float(system.step(*batch)))
            if number == 0:
                found["first"] = resident("VmHWM") - before
        found["steps"] = resident("VmHWM") - before
        found["now"] = resident("VmRSS") - before
        Path(directory, f"{RANK}.json").write_text(json.dumps(found | {"losses": losses}))


if __name__ == "__main__":
    main()
