"""ResNet (He et al., 2016) of bottleneck blocks: many small variables."""

import keras

from ._base import Workload, classification, convolution, images, normalization, sizes, stem

__all__ = ["WORKLOADS"]


def make(stages, width, image_size, num_classes, batch_size, norm):
    """`stages` are numbers of blocks; `width` is that of the first stage's bottlenecks."""
    normalize = normalization(norm)
    inputs = keras.Input((image_size, image_size, 3))
    x = stem(inputs, width, normalize)
    for number, blocks in enumerate(stages):
        for block in range(blocks):
            x = _bottleneck(x, width * 2**number, 2 if number and not block else 1, normalize)
    logits = keras.layers.Dense(num_classes)(keras.layers.GlobalAveragePooling2D()(x))
    model = keras.Model(inputs, logits)
    optimizer = keras.optimizers.SGD(0.01, momentum=0.9)
    return classification(model, optimizer, images(image_size), num_classes, batch_size)


def _bottleneck(x, width, stride, normalize):
    shortcut = x
    if stride > 1 or x.shape[-1] != 4 * width:
        shortcut = normalize()(keras.layers.Conv2D(4 * width, 1, strides=stride, use_bias=False)(x))
    y = convolution(x, width, 1, normalize)
    y = convolution(y, width, 3, normalize, stride)
    y = normalize()(keras.layers.Conv2D(4 * width, 1, use_bias=False)(y))
    return keras.layers.ReLU()(keras.layers.Add()([shortcut, y]))


WORKLOADS = (
    Workload(
        "resnet",
        "ResNet101: many small variables",
        sizes(
            "stages width image_size num_classes batch_size norm",
            tiny=((1, 1), 4, 8, 5, 12, "batch"),
            small=((2, 2, 2), 16, 32, 100, 16, "batch"),
            medium=((2, 2, 2), 48, 16, 100, 16, "batch"),
            full=((3, 4, 23, 3), 64, 224, 1000, 32, "batch"),
        ),
        make,
    ),
)
