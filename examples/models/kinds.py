"""Layers of many kinds in one model each: convolutions, and normalizations."""

from functools import partial

import keras
from keras import layers

from ._base import Training, Workload, make_step, regression, sizes, squared_error

__all__ = ["WORKLOADS"]


def convolutions(width, size, batch_size):
    """Convolutions of one to three dims: separable, depthwise, dilated, grouped and transposed ones."""
    inputs = keras.Input((size, size, 4))
    x = layers.SeparableConv2D(width, 3, padding="same", activation="tanh")(inputs)
    x = layers.DepthwiseConv2D(3, padding="same", activation="tanh")(x)
    x = layers.Conv2D(width, 3, padding="same", dilation_rate=2, groups=2, activation="tanh")(x)
    x = layers.Conv2DTranspose(width, 2, strides=2, activation="tanh")(layers.AveragePooling2D(2)(x))
    deep = layers.Reshape((size, size, width, 1))(x)
    deep = layers.Conv3D(2, 3, padding="same", strides=(2, 2, 2), activation="tanh")(deep)
    line = layers.Reshape((size * size, width))(x)
    line = layers.Conv1D(width, 3, padding="causal", activation="tanh")(line)
    line = layers.SeparableConv1D(width, 3, strides=2, activation="tanh")(line)
    joined = layers.Concatenate()([layers.GlobalAveragePooling3D()(deep), layers.GlobalMaxPooling1D()(line)])
    return _trained(keras.Model(inputs, layers.Dense(1)(joined)), (size, size, 4), batch_size)


def normalizations(width, size, batch_size):
    """Those that look at one example at a time, one that looks at the weights, and weights kept within bounds."""
    inputs = keras.Input((size, size, 4))
    x = layers.SpectralNormalization(layers.Conv2D(width, 3, padding="same"))(inputs)
    x = layers.GroupNormalization(groups=2)(keras.activations.tanh(x))
    x = layers.GroupNormalization(groups=-1)(layers.Conv2D(width, 3, padding="same", activation="tanh")(x))
    x = layers.UnitNormalization()(layers.GlobalMaxPooling2D()(x))  # their mean is zero by now
    x = layers.Dense(width, activation="tanh", kernel_constraint=keras.constraints.MaxNorm(1.0))(x)
    x = layers.RMSNormalization()(layers.LayerNormalization()(x))
    return _trained(keras.Model(inputs, layers.Dense(1)(x)), (size, size, 4), batch_size)


def _trained(model, shape, batch_size):
    optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
    model.compile(optimizer=optimizer, loss="mse")
    step = make_step(lambda x, y: squared_error(y, model(x, training=True)), model.trainable_variables, optimizer)
    return Training(step, partial(regression, shape, batch_size), model.trainable_variables, model)


_SIZES = sizes("width size batch_size", tiny=(4, 8, 12), small=(16, 32, 16), full=(64, 64, 64))

WORKLOADS = (
    Workload("convolutions", "convolutions of every kind", _SIZES, convolutions),
    Workload("normalizations", "normalizations of examples and of weights", _SIZES, normalizations),
)
