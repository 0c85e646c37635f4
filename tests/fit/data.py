"""Seeded data, models and inputs that the cases share."""

import keras
import numpy as np
import tensorflow as tf

WIDTH, EXAMPLES, BATCH = 6, 22, 8
"""The last of three batches has 6 examples: uneven on 2 workers of which each has 3, and even on 3."""


def arrays(examples=EXAMPLES, seed=0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(examples, WIDTH)).astype("float32")
    y = (1 + np.tanh(x[:, :3].sum(1, keepdims=True)) + 0.1 * random.normal(size=(examples, 1))).astype("float32")
    return x, y


def held_out():
    """13 examples: with batches of 8, the last has 5."""
    return arrays(13, seed=1)


def labels(classes=3):
    x, y = arrays()
    return x, np.digitize(y[:, 0], np.linspace(0.5, 1.5, classes - 1)).astype("int32")


def dataset(data=None, size=BATCH):
    return tf.data.Dataset.from_tensor_slices(arrays() if data is None else data).batch(size)


def generator(data=None, size=BATCH):
    """Batches without end."""
    parts = arrays() if data is None else data
    while True:
        for k in range(0, len(parts[0]), size):
            yield tuple(part[k : k + size] for part in parts)


class Batches(keras.utils.PyDataset):
    """The same as a sequence."""

    def __init__(self, data=None, size=BATCH, **options):
        super().__init__(**options)
        self.data, self.size = arrays() if data is None else data, size

    def __len__(self):
        return -(-len(self.data[0]) // self.size)

    def __getitem__(self, k):
        return tuple(part[k * self.size : (k + 1) * self.size] for part in self.data)


def adam(rate=0.02):
    # Its default epsilon turns the round-off of gradients near zero into whole steps.
    return keras.optimizers.Adam(rate, epsilon=1e-2)


def regression(**dense):
    return keras.Sequential(
        [keras.Input([WIDTH]), keras.layers.Dense(5, activation="tanh", **dense), keras.layers.Dense(1)]
    )


def classifier(classes=3, activation="softmax"):
    return keras.Sequential(
        [
            keras.Input([WIDTH]),
            keras.layers.Dense(5, activation="tanh"),
            keras.layers.Dense(classes, activation=activation),
        ]
    )


def compiled(model=None, **options):
    model = regression() if model is None else model
    model.compile(**{"optimizer": adam(), "loss": "mse", "metrics": ["mae"], **options})
    return model


def weights(model, optimizer=None):
    """Every variable of a model and its optimizer by name, those of metrics and random generators aside."""
    optimizer = model.optimizer if optimizer is None else optimizer
    found = [*model.weights, *(optimizer.variables if optimizer is not None else ())]
    return {f"{k} {variable.path}": variable.numpy() for k, variable in enumerate(found)}


def outcome(model, history=None, data=None):
    """What training has led to."""
    data = held_out() if data is None else data
    return {
        "history": None if history is None else history.history,
        "epochs": None if history is None else history.epoch,
        "weights": weights(model),
        "evaluate": model.evaluate(*data, batch_size=BATCH, verbose=0, return_dict=True),
        "predict": model.predict(data[0], batch_size=BATCH, verbose=0),
    }
