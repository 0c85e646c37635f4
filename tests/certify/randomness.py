"""Train with random layers and generators, twice from one seed: `randomness.py DIRECTORY`."""

import os
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf

import autodist

RATE = 0.5


def model():
    layers = keras.layers
    augmentation = [layers.RandomFlip(), layers.RandomTranslation(0.2, 0.2), layers.RandomContrast(0.3)]
    convolution = [layers.Conv2D(4, 3, activation="relu"), layers.SpatialDropout2D(RATE), layers.Flatten()]
    head = [layers.GaussianNoise(0.5), layers.Dense(8, activation="relu"), layers.Dropout(RATE), layers.Dense(1)]
    return keras.Sequential([keras.Input([6, 6, 1]), *augmentation, *convolution, *head])


def fitted():
    """The weights, slots and seeds of a model that `fit` has trained."""
    random = np.random.default_rng(0)
    x = random.normal(size=(20, 6, 6, 1)).astype(np.float32)
    made = model()
    with autodist.scope():
        made.compile(keras.optimizers.Adam(0.01), "mse", jit_compile=True)
        made.fit(x, x[:, 0, 0], batch_size=8, epochs=2, verbose=0)
    variables = [*made.variables, *made.optimizer.variables]
    return {f"fit/{k}": np.asarray(v) for k, v in enumerate(variables)}


def drawn():
    """Masks of a custom loop by several generators, the weight that they lead to, and a generator's state."""
    weight, generator = tf.Variable(tf.ones([6, 1])), tf.random.Generator.from_seed(1)
    found = {}
    with autodist.scope() as ad:

        @ad.function
        def step(x):
            masks = tf.nn.dropout(tf.ones_like(x), RATE), generator.uniform(tf.shape(x))
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((x * masks[0] * masks[1]) @ weight)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            return masks

        for k, size in enumerate((12, 12, 7)):
            for name, mask in zip(("dropout", "generator"), step(np.ones([size, 6], np.float32)), strict=True):
                found[f"{name}/{k}"] = mask.numpy()
    return found | {"weight": weight.numpy(), "state": generator.state.numpy()}


if __name__ == "__main__":
    for number in range(2):
        keras.utils.clear_session()
        keras.utils.set_random_seed(1)
        rank = os.environ.get("RANK", "0")
        np.savez(pathlib.Path(sys.argv[1]) / f"{rank}_{number}.npz", **fitted(), **drawn())
