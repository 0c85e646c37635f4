"""A script whose workers write down which rows they get, and what they train."""

import json
import os
import random
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def trained(scope_options, batches_of):
    """The weights after one step per batch."""
    with autodist.scope(**scope_options) as ad:
        w = tf.Variable(tf.zeros([3]))

        @tf.function
        def step(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((batch["x"] @ w[:, None] - batch["y"]) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for batch in batches_of(ad):
            step(batch)
    return w.numpy().tolist()


def rows(count=53):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(count, 3)).astype("float32")
    return {"x": x, "y": x[:, :1] * 2 + 1, "id": np.arange(count)}


def infinite(ad):
    """Five batches of a dataset without end."""
    dataset = tf.data.Dataset.from_tensor_slices(rows()).batch(8).repeat()
    for k, batch in enumerate(ad.shard(dataset)):
        if k == 5:
            break
        yield batch


seen = []


def shuffled(ad):
    dataset = tf.data.Dataset.from_tensor_slices(rows()).shuffle(100).batch(7)
    for batch in ad.shard(dataset):
        seen.append(batch["id"].tolist())
        yield batch


def own(ad):
    for batch in tf.data.Dataset.from_tensor_slices(rows(48)).batch(8):
        yield {name: array[4 * RANK : 4 * RANK + 4] if WORLD > 1 else array for name, array in batch.items()}


def uneven(ad):
    """Worker 0 has more rows in each batch than worker 1, which has none in the last."""
    whole = rows(20)
    for start, middle, stop in [(0, 6, 8), (8, 13, 16), (16, 20, 20)]:
        mine = slice(start, stop) if WORLD == 1 else slice(start, middle) if RANK == 0 else slice(middle, stop)
        yield {name: array[mine] for name, array in whole.items()}


results = {
    "random": [
        random.random(),
        float(np.random.rand()),
        float(tf.random.uniform(())),
        keras.random.uniform(()).numpy().item(),
    ],
    "infinite": trained({}, infinite),
    "own": trained({"batch": "local"}, own),
    "uneven": trained({"batch": "local"}, uneven),
    "shuffled": trained({}, shuffled),
    "seen": seen,
}
with open(f"{sys.argv[1]}{RANK}.json", "w") as file:
    json.dump(results, file)
