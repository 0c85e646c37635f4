"""Small random tensors."""

import numpy as np
import tensorflow as tf

RAW = tf.raw_ops


def floats(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, shape).astype(np.float32)


def integers(below, *shape, seed=0):
    return np.random.default_rng(seed).integers(0, below, shape).astype(np.int32)


def definite(*shape):
    """Matrices that have an inverse and a root."""
    half = floats(*shape)
    return half @ np.swapaxes(half, -1, -2) + 3 * np.eye(shape[-1], dtype=np.float32)


X, Y = floats(5, 4), floats(6, 4, 3, seed=1)
