"""Batch normalization by the statistics of the whole batch.

No layer has a bias, or a shift, that the next normalization takes away: its gradient would be round-off and nothing
else.
"""

import keras
import numpy as np
import tensorflow as tf

from ..data import WORDS, dense_batches, mean_squared, sparse_batches
from ._case import case

FEWER_THAN_REPLICAS = (8, 5, 2, 8)


def normalized(**options):
    return keras.layers.BatchNormalization(momentum=0.8, **options)


def hidden(units):
    return keras.layers.Dense(units, use_bias=False)


def train(ad, model, data, loss=mean_squared):
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            predicted = model(x, training=True)
            value = loss(y, predicted)
        optimizer.apply(tape.gradient(value, model.trainable_variables), model.trainable_variables)
        return value, predicted

    for x, y in data:
        step(x, y)


@case(batch_norm="synchronized")
def batch_norm(ad):
    """Images, far from zero: the variance is small next to the square of the mean.

    In float32 one device's own round-off, with its examples in another order, is 1e-4 here; in float64 it is 2e-14.
    """
    wide = {"dtype": "float64"}
    convolution, relu = keras.layers.Conv2D, keras.layers.ReLU
    model = keras.Sequential([keras.Input([6, 6, 2], **wide), convolution(4, 3, use_bias=False, **wide)])
    for layer in (normalized(**wide), relu(**wide), convolution(4, 3, use_bias=False, **wide)):
        model.add(layer)
    for layer in (normalized(scale=False, **wide), relu(**wide), keras.layers.Flatten(**wide)):
        model.add(layer)
    model.add(keras.layers.Dense(1, **wide))
    random = np.random.default_rng(4)
    images = [random.normal(10.0, size=(size, 6, 6, 2)) for size in FEWER_THAN_REPLICAS]
    train(ad, model, [(x, x[:, 1, 1, :1] - 9) for x in images])


@case()
def batch_norm_layers(ad):
    """Layers that are made to be synchronized, and a loss that is a sum."""
    layers = [hidden(5), normalized(synchronized=True), keras.layers.ReLU(), hidden(4), normalized(synchronized=True)]
    model = keras.Sequential([keras.Input([6]), *layers, keras.layers.ReLU(), keras.layers.Dense(1)])
    train(ad, model, dense_batches(FEWER_THAN_REPLICAS), loss=lambda y, p: 0.05 * tf.reduce_sum(tf.square(y - p)))


@case(batch_norm="synchronized")
def batch_norm_of_inputs(ad):
    """Through `fit`; nothing is differentiated before the first layer, and the last axis is not the normalized one."""
    layers = [keras.layers.Reshape([2, 3]), normalized(axis=1), keras.layers.ReLU(), keras.layers.Flatten()]
    layers += [hidden(4), normalized(), keras.layers.ReLU()]
    model = keras.Sequential([keras.Input([6]), *layers, keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.Adagrad(0.1), loss="mse", metrics=["mae"])
    for x, y in dense_batches():
        model.fit(x, y, batch_size=8, shuffle=False, verbose=0)


@case(batch_norm="synchronized")
def batch_norm_masked(ad):
    """Words of number 0 are no part of the statistics."""
    embedding = keras.layers.Embedding(WORDS, 4, mask_zero=True)
    model = keras.Sequential([keras.Input([3], dtype="int32"), embedding, normalized(), keras.layers.ReLU()])
    model.add(keras.layers.Flatten())
    model.add(keras.layers.Dense(1))
    train(ad, model, sparse_batches())


@case(batch_norm="synchronized")
def batch_norm_of_a_subset(ad):
    """How many rows a replica has does not follow from its share of the batch."""
    kernel = tf.Variable(np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32), name="kernel")
    head = tf.Variable(np.ones([4, 1], np.float32), name="head")
    norm = normalized(renorm=True)
    norm.build([None, 4])
    variables = [kernel, head, *(v.value for v in norm.trainable_variables)]

    @ad.function
    def step(x, y):
        chosen = x[:, 0] > -0.3
        with tf.GradientTape() as tape:
            predicted = tf.nn.relu(norm(tf.boolean_mask(x, chosen) @ kernel, training=True)) @ head
            loss = 0.05 * tf.reduce_sum(tf.square(tf.boolean_mask(y, chosen) - predicted))
        for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    for x, y in dense_batches():
        step(x, y)


@case(batch_norm="synchronized")
def batch_norm_under_linear_losses(ad):
    """What comes back into a normalization is data: its sum over the batch is the same on all replicas."""
    kernel, scale = (
        tf.Variable(np.eye(6, 4, dtype=np.float32), name="kernel"),
        tf.Variable(np.ones(4, "f"), name="scale"),
    )
    norm = normalized(center=False)
    norm.build([None, 4])
    variables = [kernel, scale, norm.gamma.value]

    @ad.function
    def step(x, y):
        totals = []
        for reduce in (tf.reduce_sum, tf.reduce_mean):
            with tf.GradientTape() as tape:
                total = reduce((norm(tf.tanh(x @ kernel), training=True) * scale + tf.tanh(scale)) * x[:, 2:] * y)
            for gradient, variable in zip(tape.gradient(total, variables), variables, strict=True):
                variable.assign_sub(0.02 * gradient)
            totals.append(total)
        return totals

    for x, y in dense_batches(FEWER_THAN_REPLICAS):
        step(x, y)


class Mixed(keras.Model):
    """A normalization that trains, one that is frozen, and layers whose statistics are no batch's."""

    def __init__(self):
        super().__init__()
        self.frozen = keras.layers.BatchNormalization(trainable=False, synchronized=True)
        self.first = hidden(6)
        self.norm = normalized(synchronized=True)
        self.groups = keras.layers.GroupNormalization(2)
        self.last = keras.layers.SpectralNormalization(keras.layers.Dense(1))

    def call(self, x, training=None):
        x = self.norm(self.first(self.frozen(x, training=training)), training=training)
        return self.last(keras.ops.relu(self.groups(x)), training=training)


@case()
def batch_norm_in_a_subclassed_model(ad):
    """Compiled by XLA where TensorFlow can, through `fit` on a dataset whose last batch is incomplete."""
    model = Mixed()
    x, y = (np.concatenate(arrays) for arrays in zip(*dense_batches((8, 8, 8, 5)), strict=True))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"], jit_compile=True)
    model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), validation_data=(x, y), verbose=0)


@case(batch_norm="synchronized")
def batch_norm_of_several_shapes(ad):
    """Images of two sizes; one layer that is called twice in a step; the step itself is compiled by XLA."""
    convolution, norm, last = keras.layers.Conv2D(3, 3, use_bias=False), normalized(), keras.layers.Dense(1)
    for layer, shape in ((convolution, [None, None, None, 3]), (norm, [None, None, None, 3]), (last, [None, 3])):
        layer.build(shape)
    variables = [v.value for layer in (convolution, norm, last) for v in layer.trainable_variables]

    @tf.function(jit_compile=True)
    def loss_of(x):
        twice = norm(convolution(norm(x, training=True)), training=True)
        return tf.reduce_mean(tf.square(last(tf.reduce_mean(tf.nn.relu(twice), [1, 2])) - x[:, 0, 0, :1]))

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        for gradient, variable in zip(tape.gradient(loss, variables), variables, strict=True):
            variable.assign_sub(0.05 * gradient)
        return loss

    random = np.random.default_rng(4)
    for size, width in ((8, 5), (8, 7), (5, 5), (3, 7)):
        step(random.normal(size=(size, width, width, 3)).astype(np.float32))
