"""Steps that are traced once for sequences of all lengths, and described for some."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError, OtherLengthsError
from autodist.graph import Lengths, VariableNames, capture, tensor_shape


def described(step, shapes, open_dims, **options):
    specs = [
        tf.TensorSpec([None if dim in (0, *dims) else size for dim, size in enumerate(shape)])
        for shape, dims in zip(shapes, open_dims, strict=True)
    ]
    return capture(step, specs, VariableNames(), rows=shapes[0][0], lengths=Lengths.of(shapes, open_dims), **options)


def test_lengths_are_sizes_of_open_dims():
    found = Lengths.of([(8, 5), (8, 5, 3), (8, 7)], [(1,), (1,), (1,)])
    assert found.sizes == (5, 7)
    assert found.dims == (((0, 1), (1, 1)), ((2, 1),))


def trained(forward, variable):
    def step(*given):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(forward(*given))
        variable.assign_sub(tape.gradient(loss, variable))
        return loss

    return step


def test_shapes_are_those_of_the_lengths():
    w = tf.Variable(tf.ones([4, 6]))
    captured = described(trained(lambda x: tf.reduce_sum(tf.tensordot(x, w, 1), [1, 2]), w), [(8, 9, 4)], [(1,)])
    lengths = captured.lengths
    assert (lengths.least, lengths.most) == ((2,), (73,))
    sizes = []
    for graph in (captured.graph, *lengths.graphs):
        (given,) = graph.inputs
        sizes.append(given.shape)
        nodes = graph.analysis.nodes
        product = next(name for name in nodes if name.endswith("Tensordot"))
        assert tensor_shape(nodes, product) == (None, given.shape[1], 6)
    assert sizes == [(None, 11, 4), (None, 2, 4), (None, 73, 4)]


def test_stacked_steps_of_time_have_the_length():
    w = tf.Variable(tf.ones([4, 6]))

    def forward(x):
        start = tf.zeros([tf.shape(x)[0], 6])
        by_time = tf.scan(lambda state, now: tf.tanh(state + now @ w), tf.transpose(x, [1, 0, 2]), start)
        return tf.reduce_sum(by_time, [0, 2])

    captured = described(trained(forward, w), [(8, 9, 4)], [(1,)])
    for graph in (captured.graph, *captured.lengths.graphs):
        nodes, length = graph.analysis.nodes, graph.inputs[0].shape[1]
        stacks = [tensor_shape(nodes, name) for name, node in nodes.items() if node.op == "TensorListStack"]
        assert (length, None, 6) in stacks
        assert all(shape[0] == length for shape in stacks)


@pytest.mark.parametrize(("forward", "shapes"), [
    (lambda x: tf.reduce_sum(tf.reshape(x, [tf.shape(x)[0], -1, 8]), [1, 2]), [(8, 6, 4)]),  # even lengths only
    (lambda x: tf.reduce_sum(x, [1, 2]), [(8, 1, 4)]),
])  # fmt: skip
def test_what_is_not_for_other_lengths_is_refused(forward, shapes):
    w = tf.Variable(1.0)
    with pytest.raises(CaptureError):
        described(trained(lambda x: forward(x) * w, w), shapes, [(1,)])


def test_lengths_that_fit_nothing_else_are_left_out():
    w, places = tf.Variable(1.0), tf.ones([40, 4])
    captured = described(
        trained(lambda x: tf.reduce_sum(x + places[: tf.shape(x)[1]], [1, 2]) * w, w), [(8, 20, 4)], [(1,)]
    )
    assert captured.lengths.most == (31,)
    captured.check_lengths([(3, 31, 4)])
    with pytest.raises(OtherLengthsError, match="2"):
        captured.check_lengths([(3, 41, 4)])


@pytest.mark.parametrize("sizes", [(7,), (7, 9), (9, 7), (5, 6), (15, 200), (7, 8, 9)])
def test_lengths_have_no_order_and_no_remainder_in_common(sizes):
    w = tf.Variable(1.0)

    def forward(*given):
        return tf.add_n([tf.reduce_sum(x[:, 2:], [1, 2]) for x in given]) * w  # not of two

    shapes = [(8, size, 4) for size in sizes]
    captured = described(trained(forward, w), shapes, [(1,)] * len(sizes))
    graphs = (captured.graph, *captured.lengths.graphs)
    found = np.array([[given.shape[1] for given in graph.inputs] for graph in graphs])
    assert len(found) == 3
    for one, other in itertools.permutations(range(len(sizes)), 2):
        assert (found[:, one] > found[:, other]).any()
    for length in found.T:
        assert np.gcd.reduce(length - length[0]) == 1


def test_lookups_have_the_length():
    words = tf.Variable(tf.ones([30, 4]))

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.gather(words, tf.cast(ids, tf.int32)))
        words.assign_sub(tf.convert_to_tensor(tape.gradient(loss, words)))
        return loss

    captured = described(step, [(8, 9)], [(1,)])
    for graph in (captured.graph, *captured.lengths.graphs):
        nodes = graph.analysis.nodes
        (looked_up,) = [name for name, node in nodes.items() if node.op == "ResourceGather"]
        assert tensor_shape(nodes, looked_up) == (None, graph.inputs[0].shape[1], 4)


def test_what_loops_take_from_lists_has_the_lengths():
    w = tf.Variable(tf.ones([3, 3]))

    def forward(images):
        start = tf.zeros_like(images[:, 0])
        by_height = tf.transpose(images, [1, 0, 2, 3])
        return tf.scan(lambda state, row: tf.tanh(state + tf.tensordot(row, w, 1)), by_height, start)

    captured = described(trained(forward, w), [(8, 9, 6, 3)], [(1, 2)])
    for graph in (captured.graph, *captured.lengths.graphs):
        width = graph.inputs[0].shape[2]
        taken = [
            [dim.size for dim in node.attr["_output_shapes"].list.shape[number].dim]
            for function in graph.graph_def.library.function
            for node in function.node_def
            for number, op in enumerate(["TensorListGetItem", "TensorListPopBack"])
            if node.op == op
        ]
        assert [-1, width, 3] in taken


def test_one_loop_for_two_lengths_is_refused():
    w = tf.Variable(tf.ones([4]))

    @tf.function(input_signature=[tf.TensorSpec([None, None, 4])])
    def summed(x):
        def turn(k, total):
            return k + 1, tf.tanh(total + x)

        return tf.while_loop(lambda k, _: k < 3, turn, [0, tf.zeros_like(x)])[1]

    def forward(one, other):
        return tf.reduce_sum(summed(one) * w) + tf.reduce_sum(summed(other) * w)

    with pytest.raises(CaptureError, match="several shapes"):
        described(trained(forward, w), [(8, 9, 4), (8, 6, 4)], [(1,), (1,)])


def test_as_many_rows_as_there_are_at_most_are_no_fixed_number():
    w = tf.Variable(1.0)
    captured = described(trained(lambda x: tf.reduce_sum(x[:9], [1, 2]) * w, w), [(12, 9, 4)], [(1,)])
    nodes = captured.graph.analysis.nodes
    (first,) = [name for name, node in nodes.items() if node.op == "StridedSlice" and node.input[0] == "given_0"]
    assert tensor_shape(nodes, first) == (None, captured.graph.inputs[0].shape[1], 4)
