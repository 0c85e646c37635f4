"""Train a net on one image, which replicas share along its height; each worker tells times, memory and the loss.

Usage: one_image_training.py SIZE STEPS, by `autodist run`; by itself it trains in plain TensorFlow
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


def trained(make, size, steps):
    """The times of steps after the first ones, and the last loss."""
    keras.utils.set_random_seed(0)
    model, optimizer = segmenter(size), keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @make
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    image = np.random.default_rng(0).normal(size=(1, size, size, 3)).astype(np.float32)
    labels = (image[..., 0] > 0).astype(np.int32)
    times, loss = [], 0.0
    for _ in range(steps + 2):
        began_s = time.perf_counter()
        loss = float(step(image, labels))
        times.append(time.perf_counter() - began_s)
    return times[2:], loss


def main():
    size, steps = map(int, sys.argv[1:3])
    before = most_bytes()
    if "RANK" in os.environ:
        with autodist.scope():
            times, loss = trained(autodist.function(arrays=True), size, steps)
    else:
        times, loss = trained(tf.function, size, steps)
    print(json.dumps({"times": times, "memory": most_bytes() - before, "loss": loss}))


if __name__ == "__main__":
    main()
