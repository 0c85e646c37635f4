"""A Python generator with steps_per_epoch, then a PyDataset of dictionaries.

Kind: data
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(85)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")


def endless():
    random = np.random.default_rng(1)
    while True:
        rows = random.integers(0, 40, random.integers(5, 12))
        yield {"x": x[rows]}, y[rows]


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 5

    def __getitem__(self, k):
        return {"x": x[k * 9 : k * 9 + 9]}, y[k * 9 : k * 9 + 9]


with autodist.scope():
    inputs = keras.Input((4,), name="x")
    model = keras.Model({"x": inputs}, keras.layers.Dense(1)(keras.layers.Dense(6, "tanh")(inputs)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    one = model.fit(endless(), steps_per_epoch=4, epochs=2, verbose=0)
    two = model.fit(Batches(), epochs=2, shuffle=False, verbose=0, validation_data=Batches())
found = {"weights": model.get_weights(), "history": [one.history, two.history]}
