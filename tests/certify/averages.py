"""`averages.py DIRECTORY STRATEGY`: trains with moving averages, which become the weights when `fit` ends."""

import pathlib
import sys

import keras
import numpy as np

import autodist


def trained(scope):
    """The weights, the averages, and which worker this is."""
    keras.utils.set_random_seed(0)
    with scope as ad:
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5), "mse")
        x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
        model.fit(x, x[:, :1], batch_size=8, epochs=2, shuffle=False, verbose=0)
        averages = [v.numpy() for v in model.optimizer._model_variables_moving_average]
    return model.get_weights(), averages, getattr(ad, "rank", 0)


def main():
    weights, averages, rank = trained(autodist.scope(strategy=sys.argv[2]))
    np.savez(pathlib.Path(sys.argv[1], f"{rank}.npz"), *weights, *averages)


if __name__ == "__main__":
    main()
