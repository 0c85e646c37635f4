"""Train a net on one image by `fit`, which replicas share along its height; each tells times, memory and the loss.

Usage: one_image_training.py SIZE STEPS, by `autodist run`; by itself it trains in plain Keras
"""

import json
import os
import resource
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

layers = keras.layers


def most_bytes():
    """The most memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def block(given, channels):
    return layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(given)))


def segmenter(size):
    """A net that shrinks an image twice, and makes it large again."""
    images = keras.Input((size, size, 3))
    fine = block(images, 8)
    middle = block(layers.MaxPool2D()(fine), 16)
    coarse = block(layers.MaxPool2D()(middle), 32)
    up = layers.Conv2DTranspose(16, 2, 2, padding="same")(coarse)
    up = block(layers.Concatenate()([up, middle]), 16)
    up = layers.Conv2DTranspose(8, 2, 2, padding="same")(up)
    return keras.Model(images, layers.Conv2D(2, 1)(block(layers.Concatenate()([up, fine]), 8)))


class Times(keras.callbacks.Callback):
    """The seconds of each step."""

    def __init__(self):
        super().__init__()
        self.found, self.began_s = [], 0.0

    def on_train_batch_begin(self, batch, logs=None):
        self.began_s = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.found.append(time.perf_counter() - self.began_s)


def trained(size, steps):
    """The times of steps after the first ones, and the mean loss."""
    keras.utils.set_random_seed(0)
    model, times = segmenter(size), Times()
    model.compile(keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    image = np.random.default_rng(0).normal(size=(1, size, size, 3)).astype(np.float32)
    labels = (image[..., 0] > 0).astype(np.int32)
    batches = tf.data.Dataset.from_tensors((image, labels)).repeat(steps + 2)
    history = model.fit(batches, verbose=0, callbacks=[times]).history
    return times.found[2:], history["loss"][-1]


def main():
    size, steps = map(int, sys.argv[1:3])
    before = most_bytes()
    if "RANK" in os.environ:
        with autodist.scope():
            times, loss = trained(size, steps)
    else:
        times, loss = trained(size, steps)
    print(json.dumps({"times": times, "memory": most_bytes() - before, "loss": loss}))


if __name__ == "__main__":
    main()
