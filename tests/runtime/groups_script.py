"""A script: two steps and `fit` train one model with batch normalization; workers have batches of their own."""

import os
import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import autodist

layers = keras.layers
rank = os.environ.get("RANK", "alone")
directory = Path(sys.argv[1])
numbers = np.random.default_rng(0)
x, y = (numbers.normal(size=(21, size)).astype(np.float32) for size in (12, 6))
keras.utils.set_random_seed(3)
found = {}

ad = autodist.AutoDist()
with ad.scope():
    hidden = [layers.Dense(24, "tanh"), layers.BatchNormalization(), layers.Dense(24, "tanh"), layers.Dropout(0.2)]
    model = keras.Sequential([keras.Input((12,)), *hidden, layers.Dense(6)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)

    @ad.function
    def first(given, wanted):
        with tf.GradientTape() as tape:
            made = model(given, training=True)
            loss = tf.reduce_mean((made - wanted) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss, tf.reduce_max(made), tf.reduce_sum(made, 0), tf.shape(given), made

    @ad.function
    def second(given):
        with tf.GradientTape() as tape:
            made = tf.math.l2_normalize(model(given, training=True), -1)
            alike = tf.matmul(made, made, transpose_b=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(given)[0]), 3.0 * alike)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    rows = []
    for number, (given, wanted) in enumerate(ad.shard(data)):
        *values, made = first(given, wanted)
        rows.append(np.asarray(made))
        found |= {f"{number}/{k}": np.asarray(value) for k, value in enumerate([*values, second(given)])}
    found["rows"] = np.concatenate(rows)
    model.compile(optimizer, "mse", metrics=["mae"])
    for name, values in model.fit(x, y, batch_size=8, shuffle=False, epochs=2, verbose=0).history.items():
        found[name] = np.asarray(values)
    model.set_weights([0.9 * weight for weight in model.get_weights()])
    model.save(directory / "model.keras")  # as the chief does
    model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    found["evaluated"] = np.asarray(model.evaluate(x, y, batch_size=8, verbose=0))
    model.layers[0].trainable = False
    model.compile(optimizer, "mse")  # another step, which trains fewer variables with the same slots
    found["frozen"] = np.asarray(model.fit(x, y, batch_size=8, shuffle=False, verbose=0).history["loss"])
    again = keras.models.load_model(directory / "model.keras")
    again.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    for name, one in (("kept", model), ("again", again)):
        found |= {f"{name}/{k}": np.asarray(v) for k, v in enumerate((*one.variables, *one.optimizer.variables))}

np.savez(directory / f"{rank}.npz", **found)
