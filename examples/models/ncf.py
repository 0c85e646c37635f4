"""Neural collaborative filtering (He et al., 2017): matrix factorization and a multi-layer perceptron side by side."""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from ._base import Workload, from_loss, sizes

__all__ = ["WORKLOADS"]


def make(sparse, users, items, factors, layers, batch_size):
    """Four tables; `sparse` looks rows up in them, else the gradient of each is as large as the table.

    `layers` are widths; the first is split between the user's and the item's embedding.
    """
    half = layers[0] // 2
    widths = {"mf": factors, "mlp": half}
    shapes = {f"{name}_user": (users, width) for name, width in widths.items()}
    shapes |= {f"{name}_item": (items, width) for name, width in widths.items()}
    tables = {name: _table(name, shape) for name, shape in shapes.items()}
    perceptron = keras.Sequential([keras.layers.Dense(width, activation="relu") for width in layers[1:]])
    perceptron.build((None, 2 * half))
    score = keras.layers.Dense(1)
    score.build((None, factors + layers[-1]))
    rows_of = tf.nn.embedding_lookup if sparse else _dense_rows

    def loss_of(user, item, label):
        general = rows_of(tables["mf_user"], user) * rows_of(tables["mf_item"], item)
        special = perceptron(tf.concat([rows_of(tables["mlp_user"], user), rows_of(tables["mlp_item"], item)], 1))
        logits = score(tf.concat([general, special], 1))[:, 0]
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(label, logits))

    variables = [*tables.values(), *(v.value for v in perceptron.trainable_variables + score.trainable_variables)]
    # Adam moves every row in each step, also those that the batch does not touch.
    optimizer = keras.optimizers.SGD(0.05) if sparse else keras.optimizers.Adam(1e-3)
    return from_loss(loss_of, variables, optimizer, partial(_batch, users, items, batch_size))


def _table(name, shape):
    values = keras.random.normal(shape, stddev=0.1, seed=keras.random.SeedGenerator(len(name) + shape[0]))
    return tf.Variable(values, name=name)


def _dense_rows(table, ids):
    return tf.one_hot(ids, table.shape[0]) @ table


def _batch(users, items, batch_size, number):
    random = np.random.default_rng(number)
    user = random.integers(users, size=batch_size).astype(np.int32)
    item = random.integers(items, size=batch_size).astype(np.int32)
    return user, item, ((user + item) % 2).astype(np.float32)


def _sizes(sparse):
    small = (True, 40000, 20000, 64, (128, 64, 32), 256) if sparse else (False, 20000, 10000, 32, (64, 64, 32), 64)
    return sizes(
        "sparse users items factors layers batch_size",
        tiny=(sparse, 60, 40, 4, (8, 8, 4), 12),
        small=small,
        medium=(sparse, 60000, 30000, 64, (128, 64, 32), 4096 if sparse else 64),
        full=(sparse, 138493 * 4, 26744 * 8, 64, (256, 256, 128, 64), 256),
    )


WORKLOADS = (
    Workload("ncf_dense", "NCF whose tables get dense gradients, as in the thesis", _sizes(False), make),
    Workload("ncf_sparse", "NCF whose tables get sparse gradients", _sizes(True), make),
)
