"""Nodes that are made by hand: what they compute, and what TensorFlow makes of them."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import NodeList

SHAPES = ((5, 3), (2, 5, 3), (2, 4, 5, 3))


def turned(tensor, order):
    nodes = NodeList()
    name = nodes.transpose("turned", "given", order, "float32")
    graph_def = tf.compat.v1.GraphDef(node=nodes.nodes)
    return tf.import_graph_def(graph_def, input_map={"given": tensor}, return_elements=[f"{name}:0"], name="")[0]


@pytest.mark.parametrize("shape", SHAPES)
def test_dims_are_put_into_any_order(shape):
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for order in list(itertools.permutations(range(len(shape))))[1:]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            found = session.run(turned(tf.constant(given), order))
        np.testing.assert_array_equal(found, np.transpose(given, order))


def test_no_product_transposes_both_matrices():
    """TensorFlow would leave the first transpose to the product, which then takes five times as long."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        rows, weights = (tf.compat.v1.placeholder(tf.float32, shape) for shape in ((64, 8), (32, 64)))
        product = tf.matmul(turned(rows, (1, 0)), weights, transpose_b=True)
        options = tf.compat.v1.RunOptions(output_partition_graphs=True)
        metadata = tf.compat.v1.RunMetadata()
        given = {rows: np.ones((64, 8)), weights: np.ones((32, 64))}
        found = session.run(product, given, options=options, run_metadata=metadata)
    np.testing.assert_array_equal(found, np.full((8, 32), 64.0))
    products = [node for graph in metadata.partition_graphs for node in graph.node if "MatMul" in node.op]
    assert [(node.attr["transpose_a"].b, node.attr["transpose_b"].b) for node in products] == [(False, True)]
