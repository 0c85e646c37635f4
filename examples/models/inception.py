"""Inception (Szegedy et al., 2016): parallel branches of convolutions, some factored into 1×n and n×1."""

import keras

from ._base import Workload, classification, convolution, images, normalization, sizes, stem

__all__ = ["WORKLOADS"]


def make(stages, width, image_size, num_classes, batch_size, norm):
    """`stages` are numbers of blocks between halvings of the image; a branch of the first has `width` filters."""
    normalize = normalization(norm)
    inputs = keras.Input((image_size, image_size, 3))
    x = stem(inputs, width, normalize)
    for number, blocks in enumerate(stages):
        filters = width * 2**number
        if number:
            x = _reduction(x, filters, normalize)
        for _ in range(blocks):
            x = _block(x, filters, normalize)
    x = keras.layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, keras.layers.Dense(num_classes)(x))
    optimizer = keras.optimizers.RMSprop(1e-3, rho=0.9, momentum=0.9, epsilon=1.0)
    return classification(model, optimizer, images(image_size), num_classes, batch_size)


def _block(x, filters, normalize):
    narrow = max(filters // 2, 2)
    one = convolution(x, filters, (1, 1), normalize)
    five = convolution(convolution(x, narrow, (1, 1), normalize), filters, (5, 5), normalize)
    seven = convolution(x, narrow, (1, 1), normalize)
    seven = convolution(convolution(seven, narrow, (1, 7), normalize), filters, (7, 1), normalize)
    pooled = keras.layers.AveragePooling2D(3, strides=1, padding="same")(x)
    return keras.layers.Concatenate()([one, five, seven, convolution(pooled, filters, (1, 1), normalize)])


def _reduction(x, filters, normalize):
    strided = convolution(x, filters, (3, 3), normalize, strides=2)
    return keras.layers.Concatenate()([strided, keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)])


WORKLOADS = (
    Workload(
        "inception",
        "an Inception of about V3's size: parallel branches",
        sizes(
            "stages width image_size num_classes batch_size norm",
            tiny=((1, 1), 4, 8, 5, 12, "batch"),
            small=((1, 2, 1), 16, 32, 100, 16, "batch"),
            full=((3, 5, 3), 96, 299, 1000, 32, "batch"),
        ),
        make,
    ),
)
