"""Shapes as TensorFlow infers them, without objects of Python for the operations."""

import pytest
import tensorflow as tf

from autodist.graph._inferred_shapes import inferred_shapes
from autodist.graph._nodes import NodeList


def graph_of(build):
    with tf.Graph().as_default() as graph:
        build()
    return graph.as_graph_def()


def rows(length=None):
    return tf.compat.v1.placeholder(tf.float32, (length, 3), "x")


def test_an_attribute_that_was_asked_for_may_be_missing():
    """Asking a node of protobuf for an attribute that it lacks gives it one without a value."""
    graph_def = graph_of(lambda: tf.strided_slice(rows(5), [0, 0], [2, 3], name="slice"))
    node = graph_def.node[-1]
    del node.attr["ellipsis_mask"]
    assert node.attr["ellipsis_mask"].i == 0

    assert inferred_shapes(graph_def)["slice"] == [(2, 3)]


def test_known_values_are_taken_instead():
    graph_def = graph_of(lambda: tf.reshape(rows(), tf.compat.v1.placeholder(tf.int32, (2,), "shape"), name="made"))
    known = NodeList()
    known.constant("known", [6, 1], "int32")

    assert inferred_shapes(graph_def)["made"] == [(None, None)]
    assert inferred_shapes(graph_def, known.nodes, {"shape": "known"})["made"] == [(6, 1)]


def test_what_does_not_fit_is_refused():
    graph_def = graph_of(lambda: tf.add(rows(4), rows(4), name="added"))
    graph_def.node[0].attr["shape"].shape.dim[0].size = 5

    with pytest.raises(ValueError, match="must be equal"):
        inferred_shapes(graph_def)
