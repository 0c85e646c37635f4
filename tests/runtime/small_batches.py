"""Batches of few large images. As a script, it trains on them on all workers, and keeps what comes out."""

import os
import pickle
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import tensorflow as tf

import autodist

SIDES = 22, 18


def data(count, seed=0):
    """Images, and a class for each of their pixels."""
    images = np.random.default_rng(seed).normal(size=(count, *SIDES, 3)).astype(np.float32)
    return images, (images[..., 0] > 0).astype(np.int32)


def segmenter():
    """A net that shrinks an image and makes it large again, with all that Keras has to train it."""
    layers = keras.layers
    images = keras.Input((*SIDES, 3))

    def block(x, channels):
        return layers.ReLU()(layers.BatchNormalization()(layers.Conv2D(channels, 3, padding="same")(x)))

    fine = block(images, 4)
    coarse = block(layers.MaxPool2D(2)(fine), 6)
    up = layers.Dropout(0.3)(layers.Conv2DTranspose(6, 3, 2, padding="same")(coarse))
    up = block(layers.Concatenate()([up, fine]), 4)
    model = keras.Model(images, layers.Conv2D(2, 1)(up))
    model.compile(
        keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy", keras.metrics.MeanIoU(2, sparse_y_pred=False)],
    )
    return model


def fitted(rows=1, weigh=lambda weights: weights):
    """What `fit`, `evaluate` and `predict` give for batches of this many images, and the variables."""
    keras.utils.set_random_seed(0)
    model, (images, labels) = segmenter(), data(4 * rows)
    before = [variable.numpy() for variable in model.variables]
    weights = np.random.default_rng(3).uniform(0.5, 1.5, labels.shape).astype(np.float32)
    history = model.fit(
        images, labels, rows, 2, verbose=0, shuffle=False, validation_data=data(rows, 1), sample_weight=weigh(weights)
    ).history
    after = [variable.numpy() for variable in model.variables]
    assert all(np.abs(one - other).max() > 0 for one, other in zip(before, after, strict=True)), "weights moved"
    tested = model.evaluate(*data(2 * rows, 2), rows, verbose=0)
    return {"history": history, "tested": tested, "found": model.predict(images, rows, verbose=0), "variables": after}


def stepped(rows=1, make=tf.function):
    """The same by steps of one's own."""
    keras.utils.set_random_seed(0)
    model, (images, labels) = segmenter(), data(4 * rows)
    optimizer = keras.optimizers.Adam(0.01, epsilon=1e-3)
    optimizer.build(model.trainable_variables)

    @make
    def step(images, labels, *, scale):
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(labels, model(images, training=True), True)
            loss = tf.reduce_mean(losses) * scale
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss, losses

    found = []
    for k in range(4):
        part = slice(k * rows, (k + 1) * rows)
        found.append(step(images[part], labels[part], scale=np.float32(2.0)))
    return {
        "found": [[one.numpy() for one in pair] for pair in found],
        "variables": [v.numpy() for v in model.variables],
    }


def compare(found, expected):
    """Check that two results are the same."""
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-5)


def cut_small_images(setattr_of):
    """Have replicas share images as small as these, which does not pay."""
    from autodist.graph.layouts import _argument_layouts, _plan, _plan_costs
    from autodist.runtime import _small_batches

    setattr_of(_small_batches, "_GAIN", 0.0)
    for module in (_argument_layouts, _plan, _plan_costs):
        setattr_of(module, "LATENCY_BYTES", 1)


if __name__ == "__main__":
    cut_small_images(setattr)
    KIND, ROWS, PLACE = sys.argv[1:]
    with autodist.scope():
        FOUND = fitted(int(ROWS)) if KIND == "fit" else stepped(int(ROWS), autodist.function)
    Path(PLACE, f"{os.environ['RANK']}.pkl").write_bytes(pickle.dumps(FOUND))
