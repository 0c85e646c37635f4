"""A script for two datasets whose last batches are unlike: all are shared but these, in a `fit` and in a loop."""

import json
import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist


def batches():
    """Elements of 8 and 8 rows, and one of 2 and 4."""
    x, others = (np.random.default_rng(k).normal(size=(rows, 5)).astype("float32") for k, rows in enumerate((18, 20)))
    labelled = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8)
    return tf.data.Dataset.zip(labelled, tf.data.Dataset.from_tensor_slices(others).batch(8))


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)

    def call(self, x):
        return self.outer(self.inner(x))

    def train_step(self, data):
        (x, y), others = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y)) + tf.math.reduce_std(self(others))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}


def train(batches_of):
    """The weights of two models, before and after training by a fit and by a loop."""
    keras.utils.set_random_seed(1)
    models = Model(), Model()
    for model in models:
        model(tf.zeros([1, 5]))
        model.compile(keras.optimizers.Adam(0.05))
    before = [weight.tolist() for model in models for weight in model.get_weights()]
    models[0].fit(batches(), epochs=2, verbose=0, shuffle=False)
    step = tf.function(models[1].train_step)
    for _ in range(2):
        for element in batches_of(batches()):
            step(element)
    return before, [weight.tolist() for model in models for weight in model.get_weights()]


if __name__ == "__main__":
    with autodist.scope() as ad:
        found = train(ad.shard)
    Path(f"{os.environ['RANK']}.json").write_text(json.dumps(found))
