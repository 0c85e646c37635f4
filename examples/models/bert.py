"""BERT (Devlin et al., 2019): masked tokens are predicted by the table of the inputs."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._attention import Embeddings, encoder_layer
from ._base import Workload, from_loss, sizes

__all__ = ["WORKLOADS"]


def make(num_layers, width, heads, vocabulary, length, batch_size):
    """A stack of encoders whose prediction shares the embedding table: it gets a sparse and a dense gradient."""
    embeddings = Embeddings(vocabulary, length, width, name="embeddings")
    ids = keras.Input((length,), dtype="int32")
    x = keras.layers.LayerNormalization(name="input_norm")(embeddings(ids))
    for number in range(num_layers):
        x = encoder_layer(x, width, heads, f"layer_{number}")
    model = keras.Model(ids, keras.layers.Dense(width, activation="gelu", name="transform")(x))

    def loss_of(ids, positions, labels):
        hidden = tf.gather(model(ids, training=True), positions, batch_dims=1)
        logits = embeddings.logits(hidden)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    optimizer = keras.optimizers.AdamW(1e-3, weight_decay=0.01, epsilon=1e-6)
    batch = partial(_batch, vocabulary, length, batch_size)
    return from_loss(loss_of, model.trainable_variables, optimizer, batch)


def _batch(vocabulary, length, batch_size, number):
    random = np.random.default_rng(number)
    ids = random.integers(vocabulary, size=(batch_size, length)).astype(np.int32)
    masked = max(1, length // 7)
    positions = np.sort(random.permuted(np.tile(np.arange(length), (batch_size, 1)), axis=1)[:, :masked], axis=1)
    labels = np.take_along_axis(ids, positions, axis=1)
    np.put_along_axis(ids, positions, 0, axis=1)
    return ids, positions.astype(np.int32), labels


def _sizes(num_layers, width, heads, batch_size=32):
    return sizes(
        "num_layers width heads vocabulary length batch_size",
        tiny=(num_layers, 8, 2, 50, 12, 12),
        small=(num_layers, 128, 4, 4000, 32, 16),
        medium=(num_layers, 256, 4, 16000, 16, 16),
        full=(num_layers, width, heads, 30522, 128, batch_size),
    )


WORKLOADS = (
    Workload("bert_3", "BERT of 3 layers", _sizes(3, 256, 4), make),
    Workload("bert_6", "BERT of 6 layers", _sizes(6, 512, 8), make),
    Workload("bert_12", "BERT-base", _sizes(12, 768, 12), make),
    Workload("bert_large", "BERT-large", _sizes(24, 1024, 16, batch_size=8), make),
)
