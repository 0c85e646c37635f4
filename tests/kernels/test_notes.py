"""What differs from one device as is documented is said, and only where it does."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import single


def fused(x):
    images = tf.reshape(x, [-1, 1, 1, 3])
    return tf.reshape(tf.compat.v1.nn.fused_batch_norm(images, tf.ones([3]), tf.zeros([3]))[0], [-1, 3])


def truncated(x):
    return x + keras.random.truncated_normal(tf.shape(x), seed=1)


def trained(*layers):
    """A step of a model with these layers, and a batch of 8 examples."""
    model = keras.Sequential([keras.Input((3,)), *layers, keras.layers.Dense(1)])

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        for variable, gradient in zip(
            model.trainable_variables, tape.gradient(loss, model.trainable_variables), strict=True
        ):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step, [np.ones((8, 3), "float32")]


@pytest.mark.parametrize(
    ("layers", "said"),
    [
        ([keras.layers.BatchNormalization], ["batch normalization"]),
        (
            [keras.layers.BatchNormalization, lambda: keras.layers.Lambda(truncated)],
            ["batch normalization", "random numbers"],
        ),
        (
            [keras.layers.BatchNormalization, lambda: keras.layers.Dropout(0.5)],
            ["batch normalization"],
        ),
        ([lambda: keras.layers.BatchNormalization(synchronized=True)], []),
        (
            [lambda: keras.layers.BatchNormalization(synchronized=True), lambda: keras.layers.Dropout(0.5)],
            [],
        ),
        ([lambda: keras.layers.Lambda(fused)], ["batch normalization"]),
        ([lambda: keras.layers.Dropout(0.5)], []),
        ([lambda: keras.layers.Dropout(0.5, noise_shape=(1, 3)), keras.layers.LayerNormalization], []),
    ],
    ids=["batch_norm", "both", "and dropout", "synchronized", "synchronized and dropout", "fused", "dropout", "whole"],
)
def test_what_differs_as_is_documented_is_said(layers, said):
    step, arrays = trained(*(layer() for layer in layers))
    _, graph = single.rewritten(step, arrays, 2)
    known = "batch normalization", "random numbers"
    assert [next(what for what in known if what in note) for note in graph.notes] == said


def test_batch_normalization_is_named_by_its_layers():
    step, arrays = trained(keras.layers.BatchNormalization(name="first"), keras.layers.BatchNormalization(name="other"))
    _, graph = single.rewritten(step, arrays, 2)
    assert graph.notes[0].startswith("batch normalization (`first`, `other`) normalizes")


def test_layers_that_keras_numbers_are_told_apart():
    """Their scopes have numbers as well: `norm_1` and `norm_1_2` here, of the layers `norm` and `norm_1`."""
    step, arrays = trained(keras.layers.BatchNormalization(name="norm"), keras.layers.BatchNormalization(name="norm_1"))
    _, graph = single.rewritten(step, arrays, 2)
    assert graph.notes[0].startswith("batch normalization (`norm`, `norm_1`) normalizes")


@pytest.mark.parametrize("compared", [False, True], ids=["apart", "with each other"])
@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_sums_that_may_overflow_on_one_device_alone_are_told(kind, compared):
    w = tf.Variable(np.ones((3, 2), "float32"), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            losses = tf.cast((x @ w) ** 2, kind)
            loss = tf.cast(tf.reduce_mean(losses), "float32")
            if compared:
                loss += tf.math.reduce_std(x @ w)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    _, graph = single.rewritten(step, [np.ones((8, 3), "float32")], 2)
    assert [note.partition(", ")[0] for note in graph.notes] == (
        ["`Mean` (Mean) adds up float16 of all examples"] if kind == "float16" else []
    )


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_gradients_whose_parts_may_overflow_alone_are_told(policy):
    step, arrays = trained(keras.layers.Dense(3, dtype=keras.DTypePolicy(policy)), keras.layers.Activation("tanh"))
    _, graph = single.rewritten(step, arrays, 2)
    said = [note.partition(" are ")[0] for note in graph.notes]
    assert said == (["gradients in float16"] if policy == "mixed_float16" else [])
