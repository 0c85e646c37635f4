"""What a model of the registry is, and what they share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

__all__ = [
    "SIZES", "Training", "Workload",
    "classification", "convolution", "from_loss", "images", "make_step", "matrix", "normalization", "regression",
    "sizes", "squared_error", "stem",
]  # fmt: skip

SIZES = ("tiny", "small", "medium", "full")


@dataclass(frozen=True)
class Training:
    """A model, ready to be trained.

    Attributes:
        step: Takes the arrays of a batch, makes one update and returns the loss: a mean over the batch.
        batch: Makes the arrays of a batch from a number; dim 0 is the batch.
        variables: What is trained.
        model: For those that can be trained by `fit`: compiled, of two arrays.
        loss_of: The loss of a batch, for steps written otherwise; of most models.
        optimizer: What makes the updates, of those.
    """

    step: Callable[..., Any]
    batch: Callable[[int], tuple[np.ndarray, ...]]
    variables: list[Any]
    model: keras.Model | None = None
    loss_of: Callable[..., Any] | None = None
    optimizer: Any = None


@dataclass(frozen=True)
class Workload:
    """A model by name.

    Attributes:
        name: As on the command line.
        summary: One line.
        sizes: The arguments of `make` by size.
        make: Makes the training.
    """

    name: str
    summary: str
    sizes: dict[str, dict[str, Any]]
    make: Callable[..., Training]

    def build(self, size="small", *, seed=0, **changes):
        """Make the model with weights from a seed; `changes` replace arguments of the size, such as `batch_size`."""
        if size not in self.sizes:
            raise ValueError(f"no size `{size}` of {self.name}, there are {', '.join(self.sizes)}")
        unknown = changes.keys() - self.sizes[size].keys()
        if unknown:
            raise ValueError(f"{self.name} has no {', '.join(sorted(unknown))}, but {', '.join(self.sizes[size])}")
        keras.utils.set_random_seed(seed)
        return self.make(**(self.sizes[size] | changes))


def sizes(names, **rows):
    """Arguments by size: the names of all, and their values for each size.

    >>> sizes("width batch_size", tiny=(8, 12))
    {'tiny': {'width': 8, 'batch_size': 12}}
    """
    return {size: dict(zip(names.split(), row, strict=True)) for size, row in rows.items()}


def make_step(loss_of, variables, optimizer):
    """The usual step: one tape, one update."""
    optimizer.build(variables)

    def step(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(*batch)
        gradients = tape.gradient(loss, variables)
        optimizer.apply(gradients, variables)
        return loss

    return step


def from_loss(loss_of, variables, optimizer, batch):
    """A training that `fit` knows nothing about."""
    variables = [variable for variable in variables if variable.trainable]
    return Training(make_step(loss_of, variables, optimizer), batch, variables, None, loss_of, optimizer)


def classification(model, optimizer, make_inputs, num_classes, batch_size):
    """A training of a Keras model with one input and one class per example.

    Args:
        model: From inputs to logits.
        optimizer: A Keras optimizer.
        make_inputs: From a NumPy generator and a batch size to the inputs.
        num_classes: Width of the logits.
        batch_size: Examples per step.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss)

    def loss_of(x, y):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True))
        return tf.add_n([tf.reduce_mean(losses), *model.losses])

    batch = partial(_labelled, make_inputs, num_classes, batch_size)
    variables = model.trainable_variables
    return Training(make_step(loss_of, variables, optimizer), batch, variables, model, loss_of, optimizer)


def _labelled(make_inputs, num_classes, batch_size, number):
    random = np.random.default_rng(number)
    return make_inputs(random, batch_size), random.integers(num_classes, size=batch_size).astype(np.int32)


def images(size):
    """Makes square images in three colours."""
    return lambda random, batch: random.standard_normal((batch, size, size, 3), dtype=np.float32)


def convolution(x, filters, size, normalize, strides=1):
    """A convolution, normalized, then what is positive of it."""
    x = keras.layers.Conv2D(filters, size, strides=strides, padding="same", use_bias=False)(x)
    return keras.layers.ReLU()(normalize()(x))


def stem(x, filters, normalize):
    """First convolution; images of the papers' size are made a quarter as large by it, as there."""
    strides, size = (2, 7) if x.shape[1] > 64 else (1, 3)
    x = convolution(x, filters, size, normalize, strides)
    return keras.layers.MaxPooling2D(3, strides=2, padding="same")(x) if strides > 1 else x


def normalization(kind):
    """Makes normalization layers: "batch" as in the papers; "group" doesn't mix examples."""
    if kind == "group":
        return lambda: keras.layers.GroupNormalization(groups=2)
    return keras.layers.BatchNormalization


def regression(shape, batch_size, number):
    """Arrays (x, y) of numbers of a shape, and one number to predict for each."""
    random = np.random.default_rng(number)
    x = random.standard_normal((batch_size, *shape), dtype=np.float32)
    return x, np.tanh(x.reshape(batch_size, -1).sum(1, keepdims=True)).astype(np.float32)


def squared_error(y, predicted):
    """The mean over the batch."""
    return tf.reduce_mean(tf.square(y - predicted))


def matrix(name, shape, scale=0.3):
    """A plain variable with values that follow from its name."""
    random = np.random.default_rng(sum(map(ord, name)))
    return tf.Variable(scale * random.standard_normal(shape, dtype=np.float32), name=name)
