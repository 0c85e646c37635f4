"""The pruned graph: variables that follow each other in the dataflow are neighbours."""

import numpy as np

from autodist.graph import VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.simulator import Domain
from tests.strategies.examples import graph, variable


def names_of(domain):
    names = [variable.name for variable in domain.variables]
    found = domain.neighbours
    np.testing.assert_array_equal(found, found.T)
    assert found.diagonal().all()
    return {frozenset((names[i], names[j])) for i, j in np.argwhere(found) if i < j}


def test_of_a_graph_that_is_only_described_variables_are_in_a_row():
    described = graph(*(variable(f"w{n}", order=n) for n in range(4)))
    assert len(names_of(Domain.of(described, ResourceSpec.local(workers=2)))) == 3


def test_of_a_graph_with_branches_those_are_neighbours_between_which_data_flows():
    import keras
    import tensorflow as tf

    inputs = keras.Input((8,))
    first = keras.layers.Dense(8, name="first", use_bias=False)(inputs)
    left, right = (keras.layers.Dense(8, name=name, use_bias=False)(first) for name in ("left", "right"))
    model = keras.Model(inputs, keras.layers.Dense(1, name="last", use_bias=False)(left + right))
    weights = model.trainable_variables

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - y))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    shapes = [tf.TensorSpec((4, 8)), tf.TensorSpec((4, 1))]
    captured = capture(step, shapes, VariableNames()).graph
    found = {
        frozenset(name.split("/")[-2] for name in pair)
        for pair in names_of(Domain.of(captured, ResourceSpec.local(workers=2)))
    }
    wanted = [("first", "left"), ("first", "right"), ("left", "last"), ("right", "last")]
    assert found == {frozenset(pair) for pair in wanted}
