"""What replicas exchange in steps with tiled variables."""

from itertools import product

import keras
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.graph.layouts import tile_exchanges

layers = keras.layers
ROWS, WIDTH = 4, 1024


def graph_of(model):
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    shapes = [(ROWS, *shape[1:]) for shape in (model.input_shape, model.output_shape)]
    return capture(step, [tf.TensorSpec(shape) for shape in shapes], VariableNames()).graph.with_batch_size(ROWS)


def perceptron():
    return keras.Sequential([keras.Input((WIDTH,)), *(layers.Dense(WIDTH, activation="relu") for _ in range(3))])


def flattened():
    body = [layers.Conv2D(64, 3, padding="same"), layers.Flatten()]
    return keras.Sequential([keras.Input((4, 4, 3)), *body, *(layers.Dense(WIDTH) for _ in range(3))])


@pytest.mark.parametrize("build", [perceptron, flattened])
def test_neither_weights_nor_gradients_travel_whatever_dims_are_cut(build):
    """The weights are much larger than what is computed of the few rows."""
    graph = graph_of(build())
    kernels = [v for v in graph.trainable if v.shape == (WIDTH, WIDTH)]
    assert len(kernels) == 3
    for dims in product((0, 1, None), repeat=3):
        cut = {v.name: dim for v, dim in zip(kernels, dims, strict=True) if dim is not None}
        exchanged = tile_exchanges(graph, cut, 4, ROWS)
        assert exchanged is not None
        assert all(one.size_bytes <= 4 * ROWS * WIDTH * 2 for one in exchanged), (dims, exchanged[:3])


@pytest.mark.parametrize(("length", "is_sent"), [(2, True), (None, False)])
def test_what_has_a_dim_of_unknown_length_is_gathered(length, is_sent):
    """A worker without rows of the batch can't know how long the parts of others are."""
    body = [layers.Dense(WIDTH, "tanh"), layers.Dense(WIDTH, name="narrow"), layers.GlobalMaxPooling1D()]
    graph = graph_of(keras.Sequential([keras.Input((length, 6)), *body]))
    [name] = [v.name for v in graph.trainable if "narrow" in v.name and len(v.shape) == 2]
    how = {one.how for one in tile_exchanges(graph, {name: 0}, 4, ROWS)}
    assert ("sent all to all" in how) == is_sent
