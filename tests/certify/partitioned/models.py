"""Small models, and what trains them."""

import keras
import numpy as np
import tensorflow as tf

from ..data import BATCH_SIZES, PlainModel, batches, keras_model, mean_squared

MODELS = ("dense", "embedding", "lookup", "tied", "positions")
OPTIMIZERS = {
    "raw": None,
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: keras.optimizers.Adam(0.01),
    "adamw": lambda: keras.optimizers.AdamW(0.01, weight_decay=0.01, clipvalue=0.5),
    "ftrl": lambda: keras.optimizers.Ftrl(0.05, l1_regularization_strength=0.01),
    "v1_adam": lambda: tf.compat.v1.train.AdamOptimizer(0.01),
    "v1_adagrad": lambda: tf.compat.v1.train.AdagradOptimizer(0.1),
}


class Tied:
    """A table that is looked up in and multiplied with: it gets a sparse and a dense gradient."""

    def __init__(self):
        model = PlainModel("lookup")
        self.table, self.variables = model.variables[0], model.variables[:1]

    def __call__(self, ids):
        rows = tf.nn.embedding_lookup(self.table, ids)
        return tf.reduce_mean(tf.einsum("bwd,vd->bv", rows, self.table), axis=1, keepdims=True)


class Positions:
    """Words and their positions, whose rows are the same for all examples."""

    def __init__(self):
        self.table = PlainModel("lookup").variables[0]
        self.positions = tf.Variable(0.1 * np.arange(20, dtype=np.float32).reshape(5, 4), name="positions")
        self.variables = [self.table, self.positions]

    def __call__(self, ids):
        rows = tf.nn.embedding_lookup(self.table, ids) + tf.nn.embedding_lookup(self.positions, [4, 0, 3])
        return tf.reduce_sum(tf.tanh(rows), [1, 2])[:, None]


SHAPES = {"tied": Tied, "positions": Positions}


def train(ad, model, optimizer):
    """Train a model: Keras optimizers of Keras models by `fit`, all else in a loop."""
    kind = "lookup" if model in SHAPES else model
    made = OPTIMIZERS[optimizer]() if OPTIMIZERS[optimizer] is not None else None
    if model not in SHAPES and isinstance(made, keras.optimizers.Optimizer):
        fit(keras_model(kind), made, kind)
    elif model in SHAPES or made is None:
        loop(ad, SHAPES[model]() if model in SHAPES else PlainModel(kind), made, kind)
    else:
        network = keras_model(kind)
        loop(ad, network, made, kind, [v.value for v in network.trainable_variables])


def fit(network, optimizer, kind):
    network.compile(optimizer=optimizer, loss="mse")
    for x, y in batches(kind):
        network.fit(x, y, batch_size=max(BATCH_SIZES), shuffle=False, verbose=0)


def loop(ad, network, optimizer, kind, variables=None):
    variables = variables or network.variables
    if isinstance(optimizer, keras.optimizers.Optimizer):
        optimizer.build(variables)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, network(x))
        gradients = tape.gradient(loss, variables)
        if optimizer is None:
            update(zip(gradients, variables, strict=True))
        elif isinstance(optimizer, keras.optimizers.Optimizer):
            optimizer.apply(gradients, variables)
        else:
            optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    for x, y in batches(kind):
        step(x, y)


def update(pairs):
    """By hand: what many scripts do."""
    for gradient, variable in pairs:
        if isinstance(gradient, tf.IndexedSlices):
            variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
        else:
            variable.assign_sub(0.1 * gradient + 0.001 * variable)
