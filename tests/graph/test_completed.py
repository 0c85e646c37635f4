"""What flat nodes say although only called functions said it: shapes, and that XLA has to compile them on CPUs."""

import keras
import pytest
import tensorflow as tf

from autodist.graph import COMPILED, BatchScaling, VariableNames, capture, num_outputs, output_types


def differentiated(function, variables, rows):
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(function(x)))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec([None, *rows], tf.float64)], VariableNames()).graph


def test_nodes_that_a_function_has_renamed_have_shapes():
    """A product called `mul` is renamed if a gradient needs it, for the function gives a result `mul` then."""
    weight = tf.Variable(tf.ones([4, 6], tf.float64))

    @tf.function
    def inner(x):
        product = tf.matmul(x, weight)
        return tf.nn.softmax(product * product + tf.sin(product))

    graph = differentiated(inner, [weight], (4,))
    renamed = [node for node in graph.graph_def.node if node.name.endswith("mul_0")]
    assert [node.op for node in renamed] == ["Mul"]
    assert graph.analysis.scaling(renamed[0].name) is BatchScaling.ROWS
    computing = [node for node in graph.graph_def.node if output_types(node)]
    assert all(num_outputs(n) == len(output_types(n)) and "_output_shapes" in n.attr for n in computing)


@pytest.mark.parametrize(
    ("layer", "rows", "compiled"),
    [
        (lambda: keras.layers.Conv2D(8, 3), (8, 8, 4), set()),
        (lambda: keras.layers.Conv2D(8, 3, groups=2), (8, 8, 4), {"Conv2DBackpropFilter", "Conv2DBackpropInput"}),
        (lambda: keras.layers.Conv1D(8, 3, groups=2), (8, 4), {"Conv2DBackpropFilter", "Conv2DBackpropInput"}),
        (
            lambda: keras.layers.Conv3D(8, 2, data_format="channels_first"),
            (4, 5, 5, 5),
            {"Conv3D", "Conv3DBackpropFilterV2", "Conv3DBackpropInputV2"},
        ),
    ],
    ids=["plain", "groups", "groups of sequences", "volumes with channels first"],
)
def test_convolutions_without_a_kernel_for_cpus_are_marked(layer, rows, compiled):
    made = layer()
    made.dtype_policy = keras.DTypePolicy("float64")
    made.build((None, *rows))
    scale = tf.Variable(tf.ones(rows, tf.float64))
    weights = [scale, *(weight.value for weight in made.weights)]
    graph = differentiated(lambda x: made(x * scale), weights, rows)
    assert {node.op for node in graph.graph_def.node if COMPILED in node.attr} == compiled
    convolved = [node.name for node in graph.graph_def.node if node.op in ("Conv2D", "Conv3D")]
    assert [graph.analysis.scaling(name) for name in convolved] == [BatchScaling.ROWS]
