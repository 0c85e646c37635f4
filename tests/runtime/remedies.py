"""What tests of remedies share."""

import contextlib

import keras
import numpy as np
import tensorflow as tf

import autodist

from .programs import TWO

X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")

Y = X.sum(axis=1, keepdims=True)

IDS = np.random.default_rng(1).integers(0, 5, 24)


class Plain:
    """What a program uses of AutoDist, without AutoDist."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)


def batches(*tensors):
    return tf.data.Dataset.from_tensor_slices(tensors or (X, Y)).batch(8)


def variable(*shape):
    return tf.Variable(tf.reshape(tf.linspace(0.1, 0.5, int(np.prod(shape))), shape))


def square(error):
    return tf.reduce_mean(tf.square(error))


def found_by(program, *args, **options):
    """What a program finds: in a scope of two replicas by `options`, or without one where there are none."""
    keras.utils.set_random_seed(1)
    with autodist.scope(**TWO, **options) if options else contextlib.nullcontext(Plain) as ad:
        return [np.asarray(value) for value in tf.nest.flatten(program(ad, *args))]


def assert_trains(program, *args, **options):
    expected = found_by(program, *args)
    assert any(np.ptp(value) > 1e-3 for value in expected)
    for one, other in zip(expected, found_by(program, *args, **options), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
