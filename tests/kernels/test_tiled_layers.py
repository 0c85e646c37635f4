"""What lies between two dense layers whose weights are cut: with each layer and operation, weights are one device's.

The first dense layer is cut along its outputs, the second one along its inputs, and both are so wide that their weights
do not travel: what lies between them is computed in parts, or from gathered values.
"""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import single
from .test_tiled import trained

layers = keras.layers
WIDE = 64


def attending(attention):
    return lambda x: attention(x, x)


def excited():
    few, many = layers.Dense(8, "relu"), layers.Dense(WIDE, "sigmoid")
    return lambda x: x * many(few(layers.GlobalAveragePooling2D(keepdims=True)(x)))


def gated(x):
    value, gate = tf.split(x, 2, axis=2)
    return value * tf.sigmoid(gate)


def recurrence(x):
    return tf.transpose(tf.scan(lambda a, row: 0.5 * a + row, tf.transpose(x, [1, 0, 2])), [1, 0, 2])


def windows(x):
    cut = tf.transpose(tf.reshape(x, [-1, 3, 2, 3, 2, WIDE]), [0, 1, 3, 2, 4, 5])
    return tf.reshape(cut, [-1, 9, 4, WIDE])


def blurred(x):
    padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], "REFLECT")
    return tf.nn.depthwise_conv2d(padded, tf.ones([3, 3, WIDE, 1]) / 9, [1, 2, 2, 1], "VALID")


SEQUENCES = {
    "Conv1D": lambda: layers.Conv1D(WIDE, 3),
    "Conv1D causal": lambda: layers.Conv1D(WIDE, 3, padding="causal", dilation_rate=2),
    "Conv1D strides": lambda: layers.Conv1D(WIDE, 3, strides=2, padding="same"),
    "Conv1D groups": lambda: layers.Conv1D(WIDE, 3, groups=4),
    "SeparableConv1D": lambda: layers.SeparableConv1D(WIDE, 3, padding="same"),
    "DepthwiseConv1D": lambda: layers.DepthwiseConv1D(3, depth_multiplier=2),
    "Conv1DTranspose": lambda: layers.Conv1DTranspose(WIDE, 3, strides=2),
    "MaxPooling1D": lambda: layers.MaxPooling1D(3, strides=1, padding="same"),
    "AveragePooling1D": lambda: layers.AveragePooling1D(3, strides=2, padding="same"),
    "UpSampling1D": lambda: layers.UpSampling1D(2),
    "ZeroPadding1D": lambda: layers.ZeroPadding1D((2, 1)),
    "Cropping1D": lambda: layers.Cropping1D((1, 2)),
    "Permute": lambda: layers.Permute((2, 1)),
    "Reshape": lambda: layers.Reshape((-1, WIDE // 2)),
    "Flatten": layers.Flatten,
    "LSTM": lambda: layers.LSTM(WIDE, return_sequences=True),
    "LSTM unrolled": lambda: layers.LSTM(WIDE, return_sequences=True, unroll=True),
    "GRU backwards": lambda: layers.GRU(WIDE, return_sequences=True, go_backwards=True),
    "SimpleRNN": lambda: layers.SimpleRNN(WIDE),
    "Bidirectional": lambda: layers.Bidirectional(layers.LSTM(WIDE // 2, return_sequences=True)),
    "MultiHeadAttention": lambda: attending(layers.MultiHeadAttention(4, 16)),
    "GroupQueryAttention": lambda: attending(layers.GroupQueryAttention(8, 4, 2)),
    "LayerNormalization": layers.LayerNormalization,
    "GroupNormalization": lambda: layers.GroupNormalization(8),
    "RMSNormalization": layers.RMSNormalization,
    "UnitNormalization": layers.UnitNormalization,
    "PReLU": lambda: layers.PReLU(shared_axes=[1]),
    "Softmax over time": lambda: layers.Softmax(axis=1),
    "EinsumDense": lambda: layers.EinsumDense("btc,cd->btd", (7, WIDE), bias_axes="d"),
    "Dropout": lambda: layers.Dropout(0.3, seed=1),
    "SpatialDropout1D": lambda: layers.SpatialDropout1D(0.3, seed=1),
    "glu": lambda: layers.Lambda(gated),
    "roll": lambda: layers.Lambda(lambda x: keras.ops.roll(x, 3, axis=2)),
    "backwards": lambda: layers.Lambda(lambda x: x[:, ::-1, ::-1]),
    "slice": lambda: layers.Lambda(lambda x: x[:, 1:, 5:40:2]),
    "cumsum": lambda: layers.Lambda(lambda x: tf.cumsum(x, 2) / WIDE),
    "gather": lambda: layers.Lambda(lambda x: tf.gather(x, list(range(0, WIDE, 3)), axis=2)),
    "sort": lambda: layers.Lambda(lambda x: tf.sort(x, 1)),
    "top_k": lambda: layers.Lambda(lambda x: tf.math.top_k(x, 5)[0]),
    "split": lambda: layers.Lambda(lambda x: tf.split(x, [10, 20, 34], axis=2)[1]),
    "concat": lambda: layers.Lambda(lambda x: tf.concat([x, x[:, ::-1] * 2], 2)),
    "stack": lambda: layers.Lambda(lambda x: tf.stack([x, x * x], 1)),
    "tile": lambda: layers.Lambda(lambda x: tf.tile(x, [1, 2, 2])),
    "mirrored": lambda: layers.Lambda(lambda x: tf.pad(x, [[0, 0], [2, 1], [2, 1]], "SYMMETRIC")),
    "padded": lambda: layers.Lambda(lambda x: tf.pad(x, [[0, 0], [2, 1], [3, 5]], constant_values=0.5)),
    "l2": lambda: layers.Lambda(lambda x: tf.linalg.l2_normalize(x, 2)),
    "products": lambda: layers.Lambda(lambda x: tf.matmul(x, x, transpose_a=True) / WIDE),
    "maxout": lambda: layers.Lambda(lambda x: tf.reduce_max(tf.reshape(x, [-1, 7, WIDE // 4, 4]), -1)),
    "heads": lambda: layers.Lambda(lambda x: tf.transpose(tf.reshape(x, [-1, 7, 8, WIDE // 8]), [0, 2, 1, 3])),
    "argmax": lambda: layers.Lambda(lambda x: tf.one_hot(tf.argmax(x, 2), WIDE) + x),
    "fft": lambda: layers.Lambda(lambda x: tf.abs(tf.signal.rfft(x)) / 8),
    "scan": lambda: layers.Lambda(recurrence),
}
IMAGES = {
    "Conv2D": lambda: layers.Conv2D(WIDE, 3),
    "Conv2D strides": lambda: layers.Conv2D(WIDE, 3, strides=2, padding="same"),
    "Conv2D dilated": lambda: layers.Conv2D(WIDE, 3, dilation_rate=2, padding="same"),
    "Conv2D groups": lambda: layers.Conv2D(WIDE, 3, groups=4),
    "Conv2DTranspose": lambda: layers.Conv2DTranspose(WIDE, 3, strides=2, padding="same"),
    "DepthwiseConv2D": lambda: layers.DepthwiseConv2D(3, strides=2),
    "SeparableConv2D": lambda: layers.SeparableConv2D(WIDE, 3, padding="same"),
    "MaxPooling2D": lambda: layers.MaxPooling2D(3, strides=2, padding="same"),
    "AveragePooling2D": lambda: layers.AveragePooling2D(3, strides=1, padding="same"),
    "UpSampling2D": lambda: layers.UpSampling2D(2, interpolation="bilinear"),
    "ZeroPadding2D": lambda: layers.ZeroPadding2D(((1, 0), (0, 2))),
    "Cropping2D": lambda: layers.Cropping2D(((1, 0), (0, 2))),
    "depth_to_space": lambda: layers.Lambda(lambda x: tf.nn.depth_to_space(x, 2)),
    "space_to_depth": lambda: layers.Lambda(lambda x: tf.nn.space_to_depth(x, 2)),
    "GroupNormalization": lambda: layers.GroupNormalization(-1),
    "LayerNormalization": lambda: layers.LayerNormalization(axis=[1, 2, 3]),
    "patches": lambda: layers.Lambda(
        lambda x: tf.image.extract_patches(x, [1, 2, 2, 1], [1, 2, 2, 1], [1, 1, 1, 1], "VALID")
    ),
    "squeeze and excite": excited,
    "ConvLSTM1D": lambda: layers.ConvLSTM1D(8, 3, padding="same"),
    "TimeDistributed": lambda: layers.TimeDistributed(layers.Conv1D(WIDE, 3)),
    "grid": lambda: layers.Lambda(lambda x: x[:, 1::2, ::2] + x[:, ::2, 1::2]),
    "windows": lambda: layers.Lambda(windows),
    "blurred": lambda: layers.Lambda(blurred),
    "differences": lambda: layers.Lambda(lambda x: x[:, 1:] - x[:, :-1]),
}
QUICK = {"slice", "MultiHeadAttention", "padded", "Conv2D groups"}


def parameters():
    for shape, makers in (((7, 8), SEQUENCES), ((6, 6, 8), IMAGES)):
        for name, make in makers.items():
            yield pytest.param(shape, make, id=name, marks=() if name in QUICK else pytest.mark.slow)


@pytest.mark.parametrize(("shape", "make"), [*parameters()])
@pytest.mark.parametrize("sizes", [(4, 4), pytest.param((5, 1, 4, 2), marks=pytest.mark.slow)], ids=str)
def test_what_lies_between_cut_layers(shape, make, sizes):
    keras.utils.clear_session()
    keras.utils.set_random_seed(3)
    given = keras.Input(shape)
    x = layers.Dense(WIDE, "tanh", name="two")(make()(layers.Dense(WIDE, "tanh", name="one")(given)))
    x = layers.Lambda(lambda v: tf.reduce_mean(tf.reshape(v, [-1, tf.reduce_prod(v.shape[1:-1]), WIDE]), 1))(x)
    model = keras.Model(given, layers.Dense(8)(x))
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(3)
    data = [[numbers.normal(size=(sum(sizes), *s)).astype(np.float32) for s in (shape, (8,))] for _ in range(2)]
    step, losses, after = trained(model, optimizer, data)

    ran = single.run(step, data, sizes, strategy=f"Tiled(dims={dims(model, len(sizes))!r})", batch_size=sum(sizes))

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-5 * max(1.0, np.abs(after[name]).max()))


def dims(model, parts):
    """The dims of the two layers' weights, and drawn ones for what lies between them."""
    chosen = random.Random(model.count_params())
    found = {"one/kernel": "1", "one/bias": "0", "two/kernel": "0"}
    for variable in model.trainable_variables:
        cut = [str(d) for d, n in enumerate(variable.shape) if n % parts == 0]
        if variable.path not in found:
            found[variable.path] = chosen.choice([*cut, "whole"])
        elif found[variable.path] not in cut:
            found[variable.path] = "1"
    return tuple(f"{name}={dim}" for name, dim in found.items())
