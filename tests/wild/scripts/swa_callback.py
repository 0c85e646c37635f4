"""Stochastic weight averaging by a callback, which also restores the best weights.

Kind: callbacks
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(65)
x, y = rng.normal(size=(45, 4)).astype("float32"), rng.normal(size=(45, 1)).astype("float32")


class Averaging(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.sums, self.count = None, 0

    def on_epoch_end(self, epoch, logs=None):
        if epoch >= 1:
            weights = self.model.get_weights()
            self.sums = weights if self.sums is None else [s + w for s, w in zip(self.sums, weights)]
            self.count += 1

    def on_train_end(self, logs=None):
        self.model.set_weights([s / self.count for s in self.sums])


with autodist.scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.3, 10)), "mse")
    history = model.fit(x, y, batch_size=10, epochs=4, shuffle=False, verbose=0, callbacks=[Averaging()])
    after = model.evaluate(x, y, verbose=0)
found = {"weights": model.get_weights(), "loss": history.history["loss"], "after": after}
