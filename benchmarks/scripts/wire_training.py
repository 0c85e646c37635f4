"""Train a small model by one strategy after another; each worker writes what it sent per step, as the kernel counts.

Usage: wire_training.py DIRECTORY STRATEGY [STRATEGY...], by `autodist run`
"""

import json
import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import autodist
from autodist.testing import sent_bytes, wire_bytes

_BATCH_SIZE = 240
_LENGTH = 16
_STEPS = 5
_SETTLE_S = 0.4  # what was sent counts when it is acknowledged


def make_model():
    """2 MB of dense weights, one of them read twice a step, and a table of 20 MB of which rows are used."""
    keras.utils.set_random_seed(0)
    ids = keras.Input((_LENGTH,), dtype="int32", name="ids")
    table = keras.layers.Embedding(40_000, 128, name="table")(ids)
    hidden = keras.layers.Dense(256, activation="relu", kernel_regularizer="l2", name="hidden")(
        keras.layers.Flatten(name="flat")(table)
    )
    return keras.Model(ids, keras.layers.Dense(10, name="logits")(hidden), name="model")


def make_step(ad):
    model = make_model()
    optimizer = keras.optimizers.SGD(1e-3)
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True)) + tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def sent_per_step(step, batch):
    for _ in range(3):
        step(*batch)
    time.sleep(_SETTLE_S)
    before = wire_bytes()
    for _ in range(_STEPS):
        step(*batch)
    time.sleep(_SETTLE_S)
    return sum(sent_bytes(before, wire_bytes()).values()) / _STEPS


def measured(strategy, batch):
    ad = autodist.AutoDist(strategy=strategy)
    with ad.scope():
        sent = sent_per_step(make_step(ad), batch)
    return {"sent": sent, "strategy": ad.strategies[0].to_json()}


def main():
    directory, *strategies = sys.argv[1:]
    random = np.random.default_rng(0)
    x = random.integers(0, 40_000, (_BATCH_SIZE, _LENGTH)).astype(np.int32)
    batch = x, random.integers(0, 10, _BATCH_SIZE).astype(np.int32)
    results = {strategy: measured(strategy, batch) for strategy in strategies}
    with open(f"{directory}/{os.environ['RANK']}.json", "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
