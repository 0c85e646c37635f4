"""A script: a function of arrays reads weights of which groups of replicas have parts."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

if __name__ == "__main__":
    RANDOM = np.random.default_rng(0)
    POINTS = RANDOM.normal(size=(4000, 16)).astype(np.float32)
    with autodist.scope():
        keras.utils.set_random_seed(0)
        MODEL = keras.Sequential([keras.Input([16]), keras.layers.Dense(64), keras.layers.Dense(4)])
        MODEL.compile("sgd", "mse")
        MODEL.fit(np.ones((8, 16), np.float32), np.ones((8, 4), np.float32), batch_size=8, verbose=0)
        FOUND = autodist.function(lambda points: tf.reduce_sum(MODEL(points) ** 2, 0), arrays=True)(POINTS)
        FIRST, SECOND = (layer.get_weights() for layer in MODEL.layers)
    EXPECTED = (((POINTS @ FIRST[0] + FIRST[1]) @ SECOND[0] + SECOND[1]) ** 2).sum(0)
    np.testing.assert_allclose(FOUND, EXPECTED, rtol=1e-4)
    print("as on one device")
