"""What loops, branches and calls within them cost: as much as the operations of their bodies, each time they run."""

import pytest

from autodist.cost.operations import node_costs
from autodist.graph import VariableNames, capture
from autodist.simulator import Profile

ROWS, WIDTH, TRIPS = 3, 8, 7
PRODUCT = 2 * ROWS * WIDTH * WIDTH


def captured(loss_of):
    import tensorflow as tf

    weight = tf.Variable(tf.ones([WIDTH, WIDTH]))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(loss_of(x, weight))
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    return capture(step, [tf.TensorSpec((ROWS, WIDTH))], VariableNames()).graph


def repeated(body, trips):
    import tensorflow as tf

    def loss_of(x, weight):
        _, value = tf.while_loop(
            lambda k, _: k < trips, lambda k, value: (k + 1, body(value, weight)), (0, x), maximum_iterations=trips
        )
        return value

    return loss_of


def flops(graph, *ops):
    costs = node_costs(graph, ROWS)
    return [costs[name].flops for name, node in graph.analysis.nodes.items() if node.op in ops]


def test_each_time_counts():
    few, many = (captured(repeated(lambda value, w: value @ w, trips)) for trips in (1, TRIPS))
    forward, backward = flops(many, "While", "StatelessWhile")
    assert forward == pytest.approx(TRIPS * PRODUCT, rel=0.2)
    assert backward == pytest.approx(TRIPS * 2 * PRODUCT, rel=0.3)
    assert [forward, backward] == [TRIPS * cost for cost in flops(few, "While", "StatelessWhile")]


def test_loops_within_loops():
    inner = repeated(lambda value, w: value @ w, TRIPS)
    graph = captured(repeated(inner, TRIPS))
    assert flops(graph, "While", "StatelessWhile")[0] == pytest.approx(TRIPS**2 * PRODUCT, rel=0.3)


def test_of_branches_the_dearer_counts():
    import tensorflow as tf

    def loss_of(x, weight):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: x @ weight @ weight @ weight, lambda: x)

    forward, *_ = flops(captured(loss_of), "If", "StatelessIf")
    assert forward == pytest.approx(3 * PRODUCT, rel=0.2)


def test_a_loop_without_a_known_end_counts_once():
    import tensorflow as tf

    def loss_of(x, weight):
        most = tf.cast(tf.reduce_sum(x), tf.int32)
        return tf.while_loop(lambda k, _: k < most, lambda k, v: (k + 1, v @ weight), (0, x))[1]

    forward, *_ = flops(captured(loss_of), "While", "StatelessWhile")
    assert forward == pytest.approx(PRODUCT, rel=0.2)


def test_weights_of_a_loop_are_ready_after_it():
    graph = captured(repeated(lambda value, w: value @ w, 1000))
    profile = Profile.estimate(graph, ROWS)
    [(name, ready_s)] = profile.ready_s.items()
    assert profile.needed_s[name] < 0.1 * profile.step_s
    assert ready_s > 0.9 * profile.step_s
    assert {"While", "StatelessWhile"} & set(list(profile.op_s)[:2])
