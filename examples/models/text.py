"""A model of texts and categories; the words become numbers in the dataset, before the step."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._base import Workload, from_loss, matrix, sizes

__all__ = ["WORKLOADS"]


def make(vocabulary, buckets, width, length, batch_size):
    """The mean of a text's rows beside the rows of two hashed categories; all gradients of tables are sparse."""
    words = keras.layers.StringLookup(vocabulary=[f"word{k}" for k in range(vocabulary - 1)])
    hashed = keras.layers.Hashing(buckets)
    tables = matrix("words", (vocabulary, width)), matrix("categories", (buckets, width))
    score = matrix("score", (2 * width, 1))

    def loss_of(text, categories, label):
        pooled = tf.reduce_mean(tf.nn.embedding_lookup(tables[0], text), 1)
        category = tf.reduce_sum(tf.nn.embedding_lookup(tables[1], categories), 1)
        logits = (tf.concat([pooled, tf.tanh(category)], 1) @ score)[:, 0]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logits))

    def number(text, categories, label):
        return words(text), hashed(categories), label

    batch = partial(_batch, number, vocabulary, length, batch_size)
    return from_loss(loss_of, [*tables, score], keras.optimizers.SGD(0.5), batch)


def _batch(number, vocabulary, length, batch_size, seed):
    random = np.random.default_rng(seed)
    # Some words are not in the vocabulary.
    drawn = random.integers(vocabulary + 3, size=(batch_size, length))
    categories = [[f"user{k % 97}", f"day{k % 7}"] for k in random.integers(10**6, size=batch_size)]
    text = [[f"word{k}" for k in row] for row in drawn]
    dataset = tf.data.Dataset.from_tensors((text, categories, (drawn.sum(1) % 2).astype(np.float32))).map(number)
    text, categories, label = next(dataset.as_numpy_iterator())
    return text.astype(np.int32), categories.astype(np.int32), label


WORKLOADS = (
    Workload(
        "text",
        "words and categories, which a dataset turns into numbers",
        sizes(
            "vocabulary buckets width length batch_size",
            tiny=(20, 11, 6, 5, 12),
            small=(20000, 1000, 64, 32, 64),
            full=(200000, 100000, 256, 128, 256),
        ),
        make,
    ),
)
