"""VGG (Simonyan and Zisserman, 2015): few convolutions, huge dense layers."""

import keras

from ._base import Workload, classification, images, sizes

__all__ = ["WORKLOADS"]


def make(blocks, dense_units, image_size, num_classes, batch_size):
    """`blocks` are pairs of a number of convolutions and of their filters."""
    layers = [keras.Input((image_size, image_size, 3))]
    for convolutions, filters in blocks:
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu") for _ in range(convolutions)]
        layers.append(keras.layers.MaxPooling2D())
    layers.append(keras.layers.Flatten())
    layers += [keras.layers.Dense(dense_units, activation="relu") for _ in range(2)]
    model = keras.Sequential([*layers, keras.layers.Dense(num_classes)])
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return classification(model, optimizer, images(image_size), num_classes, batch_size)


_16 = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))

WORKLOADS = (
    Workload(
        "vgg",
        "VGG16: huge dense layers",
        sizes(
            "blocks dense_units image_size num_classes batch_size",
            tiny=(((1, 4), (1, 8)), 32, 8, 5, 12),
            small=(((1, 16), (1, 32), (2, 64)), 2048, 32, 100, 16),
            medium=(((1, 16), (1, 32), (2, 64)), 2048, 32, 100, 64),
            full=(_16, 4096, 224, 1000, 32),
        ),
        make,
    ),
)
