"""How many elements tensors have whose dims tracing leaves open: as many as running the step makes."""

import pytest

from autodist.cost.operations import Sizes, node_costs
from autodist.graph import VariableNames, capture

BATCH, WORDS, WIDTH, CLASSES = 24, 5, 8, 11


@pytest.fixture(scope="module")
def captured():
    import tensorflow as tf

    kernel, bias = tf.Variable(tf.ones([WIDTH, CLASSES])), tf.Variable(tf.ones([1, WIDTH]))

    def step(x):
        with tf.GradientTape() as tape:
            moved = x + bias * tf.reduce_sum(x, 1, keepdims=True)
            scores = tf.nn.softmax(tf.tensordot(moved, kernel, 1))
            loss = tf.reduce_mean(tf.square(scores))
        for weight, gradient in zip((kernel, bias), tape.gradient(loss, [kernel, bias]), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec((None, WORDS, WIDTH))], VariableNames()).graph


def test_products_of_words_have_a_row_for_each(captured):
    nodes = captured.analysis.nodes
    products = [name for name, node in nodes.items() if node.op == "MatMul" and not node.attr["transpose_a"].b]
    sizes = Sizes(nodes, BATCH)
    assert sorted(sizes.of(name) for name in products) == [BATCH * WORDS * WIDTH, BATCH * WORDS * CLASSES]
    costs = node_costs(captured, BATCH)
    each = 2 * BATCH * WORDS * WIDTH * CLASSES
    assert [costs[name].flops for name, node in nodes.items() if node.op == "MatMul"] == [each] * 3


def test_nothing_is_larger_than_what_the_step_makes(captured):
    sizes = Sizes(captured.analysis.nodes, BATCH)
    largest = BATCH * WORDS * CLASSES
    assert max(sizes.of(name) for name in captured.analysis.nodes) == largest


def test_time_is_proportional_to_the_batch(captured):
    for few, many in zip(node_costs(captured, 8).values(), node_costs(captured, 80).values(), strict=True):
        assert many.flops <= 10 * few.flops
        assert many.bytes <= 10 * few.bytes
