"""Time steps of a model whose weights are large beside its batch.

Usage: tiled_training.py MODEL BATCH_SIZE STEPS ROUNDS OUTPUT, by `autodist run`; MODEL is perceptron, vgg or words
"""

import json
import os
import resource
import sys

import keras
import numpy as np
import tensorflow as tf
from blocks import attention, block

import autodist
from autodist.testing import sent_bytes, wire_bytes

layers = keras.layers
VOCABULARY, WIDTH, LENGTH = 30_000, 256, 32


def perceptron():
    """Four weights of 4096 x 4096."""
    return keras.Sequential([keras.Input((4096,)), *(layers.Dense(4096, activation="relu") for _ in range(4))])


def vgg():
    """Convolutions on images of 32 x 32, and dense layers that hold nearly all weights."""
    body = [
        layer
        for width in (64, 128, 256)
        for layer in (layers.Conv2D(width, 3, padding="same", activation="relu"), layers.MaxPooling2D())
    ]
    head = [layers.Flatten(), layers.Dense(4096, activation="relu"), layers.Dense(4096, activation="relu")]
    return keras.Sequential([keras.Input((32, 32, 3)), *body, *head, layers.Dense(1000)])


class Positions(layers.Layer):
    """A learned vector for each place of a text."""

    def build(self, shape):
        self.places = self.add_weight(shape=shape[1:], name="places")

    def call(self, given):
        return given + self.places


def words():
    """A small BERT: two layers of attention, a vocabulary of 30,000, one table for words that go in and come out."""
    given, table = keras.Input((LENGTH,), dtype="int32"), layers.ReversibleEmbedding(VOCABULARY, WIDTH)
    hidden = attention(layers.LayerNormalization()(Positions()(table(given))), 2, 4, WIDTH)
    return keras.Model(given, table(hidden, reverse=True))


def batch_of(name, model, rows):
    """Examples, and what is to be made of them."""
    numbers = np.random.default_rng(0)
    if name == "words":
        return [numbers.integers(0, VOCABULARY, (rows, LENGTH)).astype(np.int32) for _ in range(2)]
    shapes = (model.input_shape[1:], model.output_shape[1:])
    return [numbers.standard_normal((rows, *shape), dtype=np.float32) for shape in shapes]


def main():
    name, batch_size, steps, rounds = sys.argv[1], *map(int, sys.argv[2:5])
    output = os.path.join(os.environ["AUTODIST_RUN_DIR"], sys.argv[5])
    keras.utils.set_random_seed(0)
    ad = autodist.AutoDist()
    with ad.scope():
        model = {"perceptron": perceptron, "vgg": vgg, "words": words}[name]()
        optimizer = keras.optimizers.SGD(0.001)
        cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                found = model(x, training=True)
                loss = cross_entropy(y, found) if name == "words" else tf.reduce_mean(tf.square(found - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            return loss

        batch = batch_of(name, model, batch_size)

        def measured():
            before = wire_bytes()
            time_s = block(lambda given: step(*given), batch, steps)
            return time_s, sum(sent_bytes(before, wire_bytes()).values()) / steps

        measured()
        found = [measured() for _ in range(rounds)]
    if ad.rank == 0:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        with open(output, "w") as file:
            json.dump({"times": [t for t, _ in found], "bytes": [b for _, b in found], "rss": most}, file)


if __name__ == "__main__":
    main()
