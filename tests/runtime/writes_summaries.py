"""A script whose steps write summaries: own steps, a `fit` with a `train_step` of its own, and evaluations."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

X = np.random.default_rng(0).normal(size=(36, 4)).astype("float32")
Y = X.sum(1, keepdims=True)


def data():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


class Model(keras.Model):
    """Writes what it computes."""

    def __init__(self, writer):
        super().__init__()
        self.inner, self.outer, self.writer = keras.layers.Dense(3, "tanh"), keras.layers.Dense(1), writer

    def call(self, x):
        return self.outer(self.inner(x))

    def train_step(self, batch):
        x, y = batch
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self(x) - y))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        with self.writer.as_default(step=self.optimizer.iterations):
            tf.summary.scalar("fit/loss", loss)
            tf.summary.scalar("fit/norm", tf.linalg.global_norm(gradients))
        return {"loss": loss}

    def test_step(self, batch):
        x, y = batch
        loss = tf.reduce_mean(tf.square(self(x) - y))
        with self.writer.as_default(step=self.optimizer.iterations):
            tf.summary.scalar("tested/loss", loss)
        return {"loss": loss}


def train(directory):
    """The weights; summaries are written to the directory."""
    keras.utils.set_random_seed(1)
    weights = []
    with autodist.scope() as ad:
        writer = tf.summary.create_file_writer(directory)
        model = Model(writer)
        model(X[:1])
        model.compile(keras.optimizers.Adam(0.05))
        model.fit(data(), epochs=2, verbose=0, shuffle=False)
        model.evaluate(data(), verbose=0)
        steps = tf.Variable(0, trainable=False, dtype=tf.int64)

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                found = model(x)
                loss = tf.reduce_mean(tf.square(found - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)
            steps.assign_add(1)
            tf.summary.scalar("loss", loss)
            tf.summary.histogram("found", found, buckets=4)
            tf.summary.write("rows", found[:, 0])
            tf.summary.text("text", tf.strings.as_string(tf.round(10 * found[:2, 0])))
            tf.summary.image("image", tf.reshape(tf.abs(x), [-1, 2, 2, 1]), max_outputs=2)
            with tf.summary.record_if(steps % 2 == 0):
                tf.summary.scalar("even", loss)
            with tf.summary.record_if(False):
                tf.summary.scalar("never", loss)
            return loss

        with writer.as_default(step=steps):
            for batch in ad.shard(data()):
                weights.append(float(step(*batch)))
                tf.summary.scalar("after the step", weights[-1])
        writer.close()
    return [weights, *model.get_weights()]


def main():
    found = train("summaries")
    with open(f"{os.environ['RANK']}.npz", "wb") as file:
        np.savez(file, *found)


if __name__ == "__main__":
    sys.exit(main())
