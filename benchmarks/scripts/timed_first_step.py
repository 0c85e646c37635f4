"""A small training that ends after its first step; prints when that was and how much CPU time it took until then.

With `autodist run` on all workers, with plain python alone.
"""

import json
import os
import time

import keras
import numpy as np
import tensorflow as tf

import autodist


def main():
    keras.utils.set_random_seed(1)
    images, labels = np.random.rand(256, 64).astype("float32"), np.random.randint(0, 10, 256)
    model = keras.Sequential([*(keras.layers.Dense(128, activation="relu") for _ in range(4)), keras.layers.Dense(10)])
    optimizer = keras.optimizers.Adam()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return value

    if "RANK" in os.environ:
        with autodist.scope() as ad:
            report(ad.function(step), images, labels, model, optimizer)
    else:
        report(tf.function(step), images, labels, model, optimizer)


def report(step, images, labels, model, optimizer):
    model.build((None, 64))
    optimizer.build(model.trainable_variables)
    float(step(images, labels))
    print("first step " + json.dumps({"time_s": time.time(), "cpu_s": time.process_time()}), flush=True)


if __name__ == "__main__":
    main()
