"""A script whose workers train on data that each reads a part of, and write down what they saw and learned."""

import functools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

FEATURES, BATCH = 3, 6


def write(directory, sizes):
    """Files of records: a number that tells it from all others, the features, the target."""
    rows = np.random.default_rng(0).normal(size=(sum(sizes), FEATURES + 2)).astype("float32")
    rows[:, 0] = np.arange(len(rows))
    rows[:, -1] = rows[:, 1:-1] @ [1, 2, 3] + 1
    first = 0
    for number, size in enumerate(sizes):
        with tf.io.TFRecordWriter(str(Path(directory) / f"{number}.records")) as writer:
            for row in rows[first : first + size]:
                writer.write(row.tobytes())
        first += size
    return rows


def dataset(directory):
    def parse(record):
        row = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), [FEATURES + 2])
        return row[1:-1], row[-1:], row[0]

    names = sorted(str(path) for path in Path(directory).glob("*.records"))
    return tf.data.TFRecordDataset(names).map(parse, num_parallel_calls=2).batch(BATCH).prefetch(1)


def make_model():
    model = keras.Sequential([keras.Input((FEATURES,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(1)])
    for k, variable in enumerate(model.variables):
        variable.assign(np.random.default_rng(k).normal(size=variable.shape) / 2)
    return model


def loop(batches, checkpoint=None):
    """Weights, losses and the numbers of the examples of each step of two epochs.

    With a checkpoint, the second epoch begins as after a restart: in the first one, behind its last batch.
    """
    model = make_model()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.variables), model.variables, strict=True))
        return loss

    losses, seen = [], []
    for epoch in [batches, batches] if checkpoint is None else resumed(batches, checkpoint, model, optimizer):
        for x, y, number in epoch:
            seen.append(np.asarray(number).tolist())
            losses.append(float(step(x, y)))
    return {"weights": [v.numpy().tolist() for v in model.variables], "losses": losses, "seen": seen}


def resumed(batches, checkpoint, model, optimizer):
    for passes in (1, 2):
        saved = checkpoint(every_steps=1, model=model, optimizer=optimizer)
        for _ in range(passes):
            yield (batch for _, batch in saved.steps(batches))


def fit(batches, epochs=2):
    model = make_model()
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss="mse", metrics=["mae"])
    history = model.fit(batches, epochs=epochs, verbose=0, shuffle=False).history
    return {"weights": [v.numpy().tolist() for v in model.variables], "losses": [*history["loss"], *history["mae"]]}


def main(out, directory, ways):
    pairs = lambda x, y, number: (x, y)  # noqa: E731
    results = {}
    for by in ways:
        with autodist.scope() as ad:
            results[f"loop {by}"] = loop(ad.shard(dataset(directory), by=by))
            saved = functools.partial(ad.checkpoint, f"{out}checkpoints-{by}")
            results[f"resumed {by}"] = loop(ad.shard(dataset(directory), by=by), saved)
            results[f"fit {by}"] = fit(ad.shard(dataset(directory).map(pairs), by=by))
    Path(f"{out}{os.environ['RANK']}.json").write_text(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3].split(","))
