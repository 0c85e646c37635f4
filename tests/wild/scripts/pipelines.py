"""Datasets of many kinds in fit: windows, interleave, samples of several, groups, rebatch, scan, weights.

Kind: data
"""

import keras
import numpy as np
import tensorflow as tf

import autodist

rng = np.random.default_rng(216)
x, y = rng.normal(size=(46, 6)).astype("float32"), rng.normal(size=(46, 1)).astype("float32")
rows, seed = tf.data.Dataset.from_tensor_slices((x, y)), 3


def of_window(a, b):
    return tf.data.Dataset.zip(a.batch(4), b.batch(4))


PIPELINES = {
    "windows": rows.window(4, shift=2, drop_remainder=True)
    .flat_map(of_window)
    .map(lambda a, b: (a[-1], b[0]))
    .batch(5),
    "interleaved": tf.data.Dataset.range(4).interleave(lambda i: rows.shard(4, i), cycle_length=2).batch(7),
    "sampled": tf.data.Dataset.sample_from_datasets([rows, rows.take(10)], [0.7, 0.3], seed=seed).batch(6),
    "groups": rows.group_by_window(lambda a, b: tf.cast(b[0] > 0, tf.int64), lambda _, w: w.batch(5), 5),
    "batched again": rows.batch(4).unbatch().batch(8).rebatch(5).prefetch(2),
    "scanned": rows.scan(np.float32(0), lambda state, row: (state + 1, (row[0] + 0.01 * state, row[1]))).batch(8),
    "shuffled and repeated": rows.shuffle(46, seed=seed).repeat(2).batch(10),
    "weighted": rows.batch(8).map(lambda a, b: (a, b, tf.abs(b)[:, 0])),
    "joined": rows.batch(8).take(3).concatenate(rows.skip(41).batch(3)),
}
found = {}
with autodist.scope():
    for name, dataset in PIPELINES.items():
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1), "mse")
        history = model.fit(dataset, epochs=2, verbose=0)
        found[name] = [model.get_weights(), history.history["loss"]]
