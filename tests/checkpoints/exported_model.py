"""What two workers export, and one device trains as well."""

import keras
import numpy as np

FEATURES = np.random.default_rng(5).normal(size=(7, 4)).astype("float32")


def make_model():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)])
    for k, variable in enumerate(model.variables):
        variable.assign(np.random.default_rng(k).normal(size=variable.shape) / 2)
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model
