"""An LSTM language model with sampled softmax (Jozefowicz et al., 2016): two large tables, both touched in few rows."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._base import Workload, from_loss, sizes

__all__ = ["WORKLOADS"]


def make(vocabulary, width, units, length, num_sampled, batch_size):
    """The classes that the softmax samples are drawn anew in each step: the same for all examples of the batch."""
    random = np.random.default_rng(0)
    embedding = _variable(random, "embedding", (vocabulary, width))
    softmax = _variable(random, "softmax", (vocabulary, units))
    bias = tf.Variable(tf.zeros([vocabulary]), name="softmax_bias")
    lstm = keras.layers.LSTM(units, return_sequences=True)
    lstm.build((None, length, width))
    # Not the paper's Adagrad: that of Keras squares the gradients of a row one by one before it adds them up, so that
    # its result depends on how many replicas share the sampled classes.
    optimizer = keras.optimizers.SGD(0.5)

    def loss_of(ids):
        hidden = tf.reshape(lstm(tf.nn.embedding_lookup(embedding, ids[:, :-1])), [-1, units])
        # Drawn by the number of the step: on all workers alike, and evenly spaced, so that none comes twice.
        seed = tf.stack([0, tf.cast(optimizer.iterations.value, tf.int32)])
        first = tf.random.stateless_uniform([], seed, maxval=vocabulary, dtype=tf.int32)
        candidates = (first + vocabulary // num_sampled * tf.range(num_sampled)) % vocabulary
        # Every class is drawn equally often, so that the correction of the logits is one constant.
        expected = tf.fill([num_sampled], num_sampled / vocabulary)
        labels = tf.reshape(ids[:, 1:], [-1, 1])
        drawn = (tf.cast(candidates, tf.int64), tf.fill(tf.shape(labels), num_sampled / vocabulary), expected)
        losses = tf.nn.sampled_softmax_loss(
            softmax, bias, tf.cast(labels, tf.int64), hidden, num_sampled, vocabulary, sampled_values=drawn
        )
        return tf.reduce_mean(losses)

    variables = [embedding, softmax, bias, *(variable.value for variable in lstm.trainable_variables)]
    return from_loss(loss_of, variables, optimizer, partial(_batch, vocabulary, length, batch_size))


def _variable(random, name, shape):
    return tf.Variable(0.1 * random.standard_normal(shape, dtype=np.float32), name=name)


def _batch(vocabulary, length, batch_size, number):
    random = np.random.default_rng(number)
    # Few words are frequent, as in a language.
    ids = np.minimum(random.zipf(1.3, size=(batch_size, length + 1)) - 1, vocabulary - 1)
    return (ids.astype(np.int32),)


WORKLOADS = (
    Workload(
        "lstm",
        "an LSTM language model with sampled softmax",
        sizes(
            "vocabulary width units length num_sampled batch_size",
            tiny=(50, 6, 8, 5, 10, 12),
            small=(20000, 128, 256, 16, 256, 16),
            medium=(40000, 256, 256, 16, 1024, 64),
            full=(793470, 512, 2048, 20, 8192, 128),
        ),
        make,
    ),
)
