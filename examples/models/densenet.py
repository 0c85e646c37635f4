"""DenseNet (Huang et al., 2017): each layer reads all before it in its block."""

import keras

from ._base import Workload, classification, images, normalization, sizes, stem

__all__ = ["WORKLOADS"]


def make(blocks, growth, image_size, num_classes, batch_size, norm):
    """`blocks` are numbers of layers, each of which adds `growth` channels."""
    normalize = normalization(norm)
    inputs = keras.Input((image_size, image_size, 3))
    x = stem(inputs, 2 * growth, normalize)
    for number, layers in enumerate(blocks):
        for _ in range(layers):
            x = keras.layers.Concatenate()([x, _layer(x, growth, normalize)])
        if number < len(blocks) - 1:
            x = _transition(x, normalize)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(normalize()(x)))
    model = keras.Model(inputs, keras.layers.Dense(num_classes)(x))
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True)
    return classification(model, optimizer, images(image_size), num_classes, batch_size)


def _layer(x, growth, normalize):
    y = keras.layers.ReLU()(normalize()(x))
    y = keras.layers.Conv2D(4 * growth, 1, use_bias=False)(y)
    y = keras.layers.ReLU()(normalize()(y))
    return keras.layers.Conv2D(growth, 3, padding="same", use_bias=False)(y)


def _transition(x, normalize):
    y = keras.layers.ReLU()(normalize()(x))
    y = keras.layers.Conv2D(x.shape[-1] // 2, 1, use_bias=False)(y)
    return keras.layers.AveragePooling2D(2)(y)


WORKLOADS = (
    Workload(
        "densenet",
        "DenseNet121: many readers of each activation",
        sizes(
            "blocks growth image_size num_classes batch_size norm",
            tiny=((2, 2), 4, 8, 5, 12, "batch"),
            small=((4, 4, 4), 12, 32, 100, 16, "batch"),
            full=((6, 12, 24, 16), 32, 224, 1000, 32, "batch"),
        ),
        make,
    ),
)
