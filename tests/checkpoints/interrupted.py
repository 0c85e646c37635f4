"""Trains until it is interrupted, and saves then; `interrupted.py DIRECTORY`."""

import sys
import time
from pathlib import Path

import keras
import numpy as np

import autodist

FEATURES = np.random.default_rng(5).normal(size=(8, 4)).astype("float32")


def make_model():
    keras.utils.set_random_seed(7)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, "tanh"), keras.layers.Dense(2)])
    model.compile("adam", "mse")
    return model


class Slow(keras.callbacks.Callback):
    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def on_train_batch_end(self, batch, logs=None):
        print("running", flush=True)
        time.sleep(0.03 * (1 + self.rank))


def main(directory):
    ad = autodist.AutoDist()
    with ad.scope():
        model = make_model()
        try:
            model.fit(FEATURES, FEATURES[:, :2], 4, epochs=2000, verbose=0, shuffle=False, callbacks=[Slow(ad.rank)])
        except KeyboardInterrupt:
            model.save(directory / "interrupted.keras")
            np.savez(directory / f"{ad.rank}.npz", *model.get_weights())
            if ad.rank == 0:
                time.sleep(1.0)
                model.save(directory / "by_the_chief.keras")
            raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
