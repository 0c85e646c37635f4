"""Seeded data and small models that the cases share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

BATCH_SIZES = (8, 8, 5, 8)
STEPS = len(BATCH_SIZES)
WORDS = 7


@dataclass(frozen=True)
class Case:
    """How to train, and the arguments of the scope."""

    train: Callable[[Any], None]
    options: dict[str, Any] = field(default_factory=dict)


def dense_batches(sizes=BATCH_SIZES, dtype=np.float32):
    """(x, y) of a regression, y around 1: biases move, rather than be left with round-off; batches differ in size."""
    random = np.random.default_rng(1)
    weights = random.normal(size=(6, 1))
    for size in sizes:
        x = random.normal(size=(size, 6))
        y = 1 + np.tanh(x @ weights) + 0.1 * random.normal(size=(size, 1))
        yield x.astype(dtype), y.astype(dtype)


def sparse_batches(sizes=BATCH_SIZES):
    """(ids, y): three of a few words each, so that most batches name a word several times."""
    random = np.random.default_rng(2)
    for size in sizes:
        ids = random.integers(WORDS, size=(size, 3)).astype(np.int32)
        yield ids, (ids.sum(1, keepdims=True) / 9 + random.normal(size=(size, 1))).astype(np.float32)


def batches(kind):
    """The data for a kind of model."""
    return dense_batches() if kind == "dense" else sparse_batches()


class Lookup(keras.layers.Layer):
    """An embedding that looks its rows up in the variable itself, without reading all of it."""

    def build(self, input_shape):
        self.table = self.add_weight(shape=(WORDS, 4), initializer="random_normal", name="table")

    def call(self, ids):
        return tf.nn.embedding_lookup(self.table.value, ids)


def keras_model(kind="dense"):
    """A small Keras model; `embedding` reads its whole table, `lookup` only the rows it needs."""
    if kind == "dense":
        layers = [keras.Input([6]), keras.layers.Dense(5, activation="tanh")]
    else:
        embedding = keras.layers.Embedding(WORDS, 4) if kind == "embedding" else Lookup()
        layers = [keras.Input([3], dtype="int32"), embedding, keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(1)])


class PlainModel:
    """The same out of plain variables and functions."""

    def __init__(self, kind="dense", dtype=np.float32):
        random = np.random.default_rng(3)
        self.kind = kind
        first, width = ((6, 5), 5) if kind == "dense" else ((WORDS, 4), 12)
        values = {"first": random.normal(size=first), "last": random.normal(size=(width, 1)), "bias": np.zeros(1)}
        self.variables = [tf.Variable(0.3 * v.astype(dtype), name=f"plain_{name}") for name, v in values.items()]

    def __call__(self, x):
        first, last, bias = self.variables
        if self.kind == "dense":
            hidden = tf.tanh(x @ first)
        elif self.kind == "embedding":
            hidden = tf.reshape(tf.gather(tf.convert_to_tensor(first), x), [-1, 12])
        else:
            hidden = tf.reshape(tf.nn.embedding_lookup(first, x), [-1, 12])
        return hidden @ last + bias


def mean_squared(y, predicted):
    """The usual loss: a mean over the batch."""
    return tf.reduce_mean(tf.square(y - predicted))
