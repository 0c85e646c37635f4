"""`unlike_data.py WAY FILES`: worker 1 has another example in its fourth batch."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

RANK = int(os.environ["RANK"])


def main(way, files):
    keras.utils.set_random_seed(3)
    x = np.random.default_rng(0).normal(size=(80, 4)).astype("float32")
    y = x.sum(1, keepdims=True)
    if RANK == 1:
        x[27] += 1
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    ad = autodist.AutoDist()
    with ad.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.05), "mse")
        optimizer = model.optimizer

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(model(x) - y))
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        try:
            if way == "fit":
                model.fit(data, epochs=2, verbose=0)
            elif way == "fit on arrays":
                model.fit(x, y, batch_size=8, shuffle=False, verbose=0)
            elif way == "train_on_batch":
                for batch in data.as_numpy_iterator():
                    model.train_on_batch(*batch)
            else:
                dealt_out = {"shard": ad.shard, "by element": lambda data: ad.shard(data, by="element")}
                for batch in dealt_out.get(way, iter)(data):
                    step(*batch)
        finally:
            with open(f"{files}{RANK}.steps", "w") as file:
                file.write(str(int(optimizer.iterations)))


if __name__ == "__main__":
    main(*sys.argv[1:])
