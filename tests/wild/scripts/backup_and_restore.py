"""BackupAndRestore: a fit that is interrupted by an error and called again.

Kind: saving
"""

import keras
import numpy as np

import autodist

rng = np.random.default_rng(68)
x, y = rng.normal(size=(40, 4)).astype("float32"), rng.normal(size=(40, 1)).astype("float32")


class Failing(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 2:
            raise RuntimeError("the machine is taken away")


def train(*callbacks):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse")
    backup = autodist.BackupAndRestore("backup")
    model.fit(x, y, batch_size=9, epochs=4, shuffle=False, verbose=0, callbacks=[backup, *callbacks])
    return model


with autodist.scope():
    try:
        train(Failing())
    except RuntimeError:
        pass
    model = train()
found = {"weights": model.get_weights(), "slots": [v.numpy() for v in model.optimizer.variables]}
