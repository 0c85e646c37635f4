"""What the scripts of these tests share: a model, data, and an end when it was ordered."""

import os
import pathlib
import signal
import sys

import keras
import numpy as np
import tensorflow as tf

ATTEMPT = int(os.environ.get("AUTODIST_ATTEMPT", "0"))
RANK = int(os.environ.get("RANK", "0"))


def die_if_ordered(orders, step):
    """Die by SIGKILL if among the orders is `attempt:rank:step` of this process and this step."""
    if f"{ATTEMPT}:{RANK}:{step}" in orders:
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)


def dataset(rows=44, size=6, seed=5):
    """Eight batches, the last of two rows, in another order in each pass."""
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 8)).astype(np.float32)
    y = np.sin(x.sum(1, keepdims=True)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(rows, seed=seed).batch(size)


def model(dropout=0.0):
    return keras.Sequential(
        [
            keras.Input((8,)),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.BatchNormalization(trainable=True) if dropout else keras.layers.Identity(),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(1),
        ]
    )


def keep(directory, model, optimizer, **more):
    """Write down everything that training has changed."""
    arrays = {f"{k} {v.path}": v.numpy() for k, v in enumerate((*model.variables, *optimizer.variables))}
    np.savez(pathlib.Path(directory) / f"{RANK}.npz", **arrays, **more)
