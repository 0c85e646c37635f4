"""One small model of everything that optimizers tell apart, and what trains it."""

import keras
import numpy as np
import tensorflow as tf

from ..data import BATCH_SIZES, WORDS, Lookup, mean_squared


def arrays(spike=False):
    """(words, features) and targets; the batches of a `fit` over them have the usual sizes.

    A spike makes the scaled gradients of one example too large for float32, on the last worker, in the second batch.
    """
    random = np.random.default_rng(11)
    count = sum(BATCH_SIZES)
    words = random.integers(WORDS, size=(count, 3)).astype(np.int32)
    features = random.normal(size=(count, 6)).astype(np.float32)
    y = 1 + np.tanh(features @ random.normal(size=(6, 1))) + words.sum(1, keepdims=True) / 9
    y[sum(BATCH_SIZES[:2]) - 1] *= 1e17 if spike else 1
    return (words, features), y.astype(np.float32)


def model(tables=True):
    """A table of which the model reads all, one of which it reads rows, kernels and biases; perhaps without tables."""
    words, features = keras.Input([3], dtype="int32", name="words"), keras.Input([6], name="features")
    whole = keras.layers.Embedding(WORDS, 4, name="whole")(words)
    rows = Lookup(name="rows")(words)
    hidden = keras.layers.Dense(5, activation="tanh", name="hidden")(features)
    flat = [keras.layers.Flatten()(table) for table in (whole, rows)] if tables else [keras.ops.cast(words, "float32")]
    flat.append(hidden)
    return keras.Model([words, features], keras.layers.Dense(1, name="last")(keras.layers.concatenate(flat)))


def train(ad, make, *, spike=False, tables=True):
    """By `fit`, or, for optimizers that are none of Keras', in a loop.

    Args:
        ad: The scope.
        make: Given the model, makes the optimizer.
        spike: See `arrays`.
        tables: See `model`.
    """
    network = model(tables)
    optimizer = make(network)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        network.compile(optimizer=optimizer, loss="mse")
        network.fit(*arrays(spike), batch_size=max(BATCH_SIZES), shuffle=False, verbose=0)
        return
    variables = [variable.value for variable in network.trainable_variables]

    @ad.function
    def step(words, features, y):
        with tf.GradientTape() as tape:
            loss = mean_squared(y, network((words, features)))
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    (words, features), y = arrays(spike)
    ends = np.cumsum(BATCH_SIZES)
    for begin, end in zip([0, *ends], ends, strict=False):
        step(words[begin:end], features[begin:end], y[begin:end])
