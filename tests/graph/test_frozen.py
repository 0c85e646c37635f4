"""Large values from outside: no part of the graph, but of its identity; small ones stay constants."""

import resource

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import BatchScaling, Role, TrainingGraph, VariableNames, capture
from tests.runtime.programs import assert_same

X = [tf.TensorSpec([8], tf.int32), tf.TensorSpec([8, 1])]


def step_of(table, w, function=lambda rows: rows):
    def step(ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.gather(function(table), ids) @ w - y) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    return step


def graph_of(table, names=None):
    return capture(step_of(table, tf.Variable(tf.ones([64, 1]), name="w")), X, names or VariableNames()).graph


@pytest.mark.parametrize("kind", [tf.constant, np.asarray], ids=["tensor", "array"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "bool"])
def test_a_large_value_is_a_variable_that_nothing_writes(kind, dtype, tmp_path):
    table = kind((np.arange(5000 * 64).reshape(5000, 64) % 99).astype(dtype))
    graph = capture(
        step_of(table, tf.Variable(tf.ones([64, 1]), name="w"), lambda rows: tf.cast(rows, tf.float32)),
        X,
        VariableNames(),
    ).graph
    assert graph.graph_def.ByteSize() < 20_000
    [frozen] = [v for v in graph.variables if v.content is not None]
    assert (frozen.role, frozen.shape, frozen.dtype) == (Role.CONSTANT, (5000, 64), dtype)
    graph.save(tmp_path / "g.zip")
    assert TrainingGraph.load(tmp_path / "g.zip").variables == graph.variables


def in_a_loop(table, ids):
    start = tf.zeros([tf.shape(ids)[0], 64])
    return tf.while_loop(lambda k, _: k < 3, lambda k, x: (k + 1, x + tf.gather(table, ids)), (0, start))[1]


TABLE = np.arange(5000 * 64, dtype="float32").reshape(5000, 64) % 99
NESTED = tf.function(lambda table, ids: tf.gather(table, ids))
TRACED_BEFORE = tf.function(lambda ids: tf.gather(TABLE, ids))
TRACED_BEFORE.get_concrete_function(X[0])
PLACES = {
    "nested": NESTED,
    "nested twice": tf.function(lambda table, ids: NESTED(table, ids) + tf.gather(table, ids)),
    "captured by a nested one": lambda table, ids: tf.function(lambda ids: tf.gather(table, ids))(ids),
    "traced before": lambda table, ids: TRACED_BEFORE(ids) + tf.gather(table, ids),
    "loop": in_a_loop,
    "branch": lambda table, ids: tf.cond(tf.reduce_sum(ids) > 0, lambda: tf.gather(table, ids), lambda: table[:8]),
    "for each": lambda table, ids: tf.map_fn(lambda k: tf.gather(table, k), ids, fn_output_signature=tf.float32),
    "cast": lambda table, ids: tf.gather(tf.constant(table.astype("float64"), tf.float32), ids),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_array_is_held_once_wherever_it_is_used(place):
    def program(scope):
        with scope():
            w = tf.Variable(tf.zeros([64, 1]), name="w")

            def step(ids, y):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((PLACES[place](TABLE, ids) / 99 @ w - y) ** 2)
                w.assign_sub(0.1 * tape.gradient(loss, w))
                return loss

            graphs.append(capture(step, X, VariableNames()).graph)
            losses = [tf.function(step)(tf.range(8) * 600 + k, tf.ones([8, 1])) for k in range(3)]
        return losses, w.numpy()

    graphs = []
    assert_same(program)
    assert graphs[0].graph_def.ByteSize() < 40_000
    assert [v.shape for v in graphs[0].variables if v.content is not None] == [(5000, 64)]


def test_an_array_that_changes_is_another_value():
    names, table = VariableNames(), np.zeros((5000, 64), "float32")
    contents = []
    for number in range(3):
        table[7] = number
        contents += [v.content for v in graph_of(table, names).variables if v.content is not None]
    assert len(set(contents)) == 3


def test_an_array_that_changes_within_a_step_is_several_values():
    table, w = np.zeros((5000, 8), "float32"), tf.Variable(tf.ones([8]), name="w")

    def step(ids):
        total = 0.0
        for number in range(3):
            table[:] = number
            total += tf.reduce_mean(tf.gather(table, ids) * w)
        return total

    captured = capture_with_gradient(step, w)
    assert len([v for v in captured.graph.variables if v.content is not None]) == 3


def capture_with_gradient(loss, w):
    def step(ids):
        with tf.GradientTape() as tape:
            value = loss(ids)
        w.assign_sub(tape.gradient(value, w))
        return value

    return capture(step, X[:1], VariableNames())


def test_a_small_one_is_a_constant():
    graph = graph_of(tf.ones([200, 64]))
    assert [v.name for v in graph.variables] == ["w"]


def test_its_content_is_of_the_graphs_identity():
    one, other = np.zeros((5000, 64), "float32"), np.zeros((5000, 64), "float32")
    other[-1, -1] = 1
    assert graph_of(tf.constant(one)).id == graph_of(tf.constant(one)).id
    assert graph_of(tf.constant(one)).identity.difference(graph_of(tf.constant(other)).identity) == "constants"


def test_steps_share_it():
    names, table = VariableNames(), tf.ones([5000, 64])
    first, second = graph_of(table, names), graph_of(table, names)
    shared = [{v.name for v in graph.variables if v.content is not None} for graph in (first, second)]
    assert shared[0] == shared[1]
    assert len(shared[0]) == 1


def test_no_gradient_flows_through_it():
    """So that the sum of the weights of a batch is a number, by which a sum of losses is divided."""
    weights, w = tf.constant(np.linspace(1, 2, 40_000, dtype="float32")), tf.Variable(tf.ones([1, 1]), name="w")

    def step(ids, y):
        with tf.GradientTape() as tape:
            weight = tf.gather(weights, ids)
            loss = tf.reduce_sum(weight[:, None] * (y @ w) ** 2) / tf.reduce_sum(weight)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    graph = capture(step, X, VariableNames()).graph
    sums = [name for name, node in graph.analysis.nodes.items() if node.op == "Sum"]
    assert any(graph.analysis.dependence.is_global(name) for name in sums)
    [target] = graph.analysis.targets.values()
    assert graph.analysis.scaling(target[0]) is BatchScaling.SUM


@pytest.mark.parametrize("megabytes", [64])
def test_it_is_held_once_and_trains_right(megabytes):
    table = tf.random.stateless_normal([megabytes * 4096, 64], (1, 2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ids = np.arange(16) * 1000
    targets = np.random.default_rng(0).normal(size=(16, 1)).astype("float32")

    def program(scope):
        with scope():
            w = tf.Variable(tf.zeros([64, 1]))
            step = tf.function(step_of(table, w))
            losses = [step(tf.constant(ids[k:]), tf.constant(targets[k:])) for k in range(3)]
        return losses, w.numpy()

    assert_same(program)
    grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    assert grown < 40e6 + 0.5 * table.shape.num_elements() * 4
