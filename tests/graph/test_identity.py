"""The identity of G: the same for each tracing of one step, in each process; another for what computes otherwise."""

import subprocess
import sys
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import TrainingGraph, VariableNames, capture


def step_of(call, *variables, spec=(8, 6, 6, 3)):
    """The graph of a step that descends the mean of what is called."""

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(call(x))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec(spec)], VariableNames()).graph


def convolution(strides=1, padding="SAME", height=6, scale=1.0, width=1):
    w = tf.Variable(tf.ones([3, 3, 3, 4]), name="w")
    return step_of(
        lambda x: scale * tf.nn.conv2d(x, w, strides, padding), w, spec=(8, height, 6 * width, 3)
    )  # fmt: skip


def dense(function, times=1):
    w = tf.Variable(tf.ones([4, 4]), name="w")

    def call(x):
        for _ in range(times):
            x = function(x @ w)
        return x

    return step_of(call, w, spec=(8, 4))


def loop(turns=3, scale=2.0, is_noted=False):
    """A step with control flow: its functions have names with counters."""
    w = tf.Variable(tf.ones([4]), name="w")

    @tf.function
    def inner(x):
        return tf.while_loop(lambda k, _: k < turns, lambda k, y: (k + 1, y * w * scale), (0, x))[1]

    if is_noted:
        inner(tf.ones([2, 4]))
    return step_of(lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: inner(x), lambda: x * w), w, spec=(8, 4))


DIFFERENT = {
    "activation": (lambda: dense(tf.nn.relu), lambda: dense(tf.nn.tanh)),
    "depth": (lambda: dense(tf.nn.tanh), lambda: dense(tf.nn.tanh, 12)),
    "stride": (convolution, lambda: convolution(strides=2)),
    "padding": (convolution, lambda: convolution(padding="VALID")),
    "image": (convolution, lambda: convolution(height=12)),
    "images of as many pixels": (lambda: convolution(height=12), lambda: convolution(width=2)),
    "constant": (convolution, lambda: convolution(scale=2.0)),
    "loop": (loop, lambda: loop(turns=4)),
    "in a loop": (loop, lambda: loop(scale=3.0)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_computes_otherwise_is_another_graph_even_with_the_same_variables(name):
    one, other = (make() for make in DIFFERENT[name])
    assert one.variables[0].shape == other.variables[0].shape
    assert one.id != other.id
    assert one.step_id != other.step_id
    assert one.id == DIFFERENT[name][0]().id, "another tracing of the same step"


def test_losses_and_layers_of_keras_are_told_apart_and_its_counters_are_not():
    def graph(loss, rate=0.5, name="loss"):
        keras.utils.clear_session()
        layers = [keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dropout(rate, seed=1)]
        model, function = keras.Sequential(layers), keras.losses.get(loss)

        def call(x):
            with tf.name_scope(name):
                return function(x[:, :3], model(x, training=True))

        return step_of(call, *model.trainable_variables, spec=(8, 4))

    assert graph("mse").id != graph("mae").id
    assert graph("mse").id != graph("mse", rate=0.25).id
    assert graph("mse").id == graph("mse", name="mean_squared_error_1").id, "names of nodes don't count"


def test_variables_and_the_batch_count():
    def graph(name):
        w = tf.Variable(tf.ones([3, 4]), name=name)
        return step_of(lambda x: x @ w, w, spec=(8, 3))

    one = graph("a")
    assert one.identity.difference(graph("b").identity) == "variables"
    small, large = replace(one, batch_size=8), replace(one, batch_size=16)
    assert small.id != large.id
    assert small.step_id == large.step_id == one.step_id


def test_in_what_two_graphs_differ():
    identity = convolution().identity
    assert identity.difference(convolution().identity) is None
    assert identity.difference(convolution(strides=2).identity) == "operations"
    assert identity.difference(convolution(scale=2.0).identity) == "constants"


def test_constants_that_are_captured_count_and_which_is_which():
    def graph(first, second):
        w = tf.Variable(tf.ones([4]), name="w")
        one, two = tf.constant(first), tf.constant(second)
        return step_of(lambda x: x * w * one + two, w, spec=(8, 4))

    a, b = np.arange(4, dtype=np.float32), np.ones(4, np.float32)
    assert graph(a, b).identity.difference(graph(b, a).identity) == "constants"
    assert graph(a, b).id == graph(a, b).id


def test_seeds_of_random_operations_do_not_count():
    def graph(seed):
        tf.random.set_seed(seed)
        w = tf.Variable(tf.ones([4]), name="w")
        return step_of(lambda x: x * w + tf.random.normal([4]), w, spec=(8, 4))

    assert graph(1).id == graph(2).id


def test_the_order_of_nodes_does_not_count_but_that_of_equal_parts_does():
    graph = loop()
    shuffled = type(graph.graph_def)()
    shuffled.CopyFrom(graph.graph_def)
    nodes = sorted(shuffled.node, key=lambda node: node.name[::-1])
    del shuffled.node[:]
    shuffled.node.extend(nodes)
    assert replace(graph, graph_def=shuffled).id == graph.id
    w, v = (tf.Variable(tf.ones([4]), name=name) for name in "wv")
    one = step_of(lambda x: tf.nn.relu(x * w) - tf.nn.tanh(x * v), w, v, spec=(8, 4))
    other = step_of(lambda x: tf.nn.relu(x * v) - tf.nn.tanh(x * w), w, v, spec=(8, 4))
    assert one.id != other.id


def test_what_is_computed_twice_is_not_what_is_computed_once():
    w = tf.Variable(tf.ones([4, 4]), name="w")
    once = step_of(lambda x: sum([x @ w] * 2), w, spec=(8, 4))
    twice = step_of(lambda x: x @ w + x @ w, w, spec=(8, 4))
    assert once.id != twice.id


def test_who_reads_the_file_finds_the_same(tmp_path):
    graph = loop(is_noted=True)
    graph.save(tmp_path / "g.zip")
    assert (TrainingGraph.load(tmp_path / "g.zip").identity) == graph.identity
    graph.save(tmp_path / "again.zip")
    assert (tmp_path / "g.zip").read_bytes() == (tmp_path / "again.zip").read_bytes()


@pytest.mark.slow  # all workers of a run compare theirs with the chief's
def test_other_processes_find_the_same():
    code = (
        "from tests.graph.test_identity import *; loop(); convolution(); loop(turns=9)\n"
        "print(loop().id, convolution().id)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == [loop().id, convolution().id], done.stderr


def test_the_identity_of_a_file_is_made_anew_where_it_was_made_in_another_way(tmp_path, monkeypatch):
    graph = dense(tf.nn.relu)
    monkeypatch.setattr("autodist.graph._serialize.SCHEME", 0)
    graph.save(tmp_path / "g.zip")
    monkeypatch.undo()
    found = TrainingGraph.load(tmp_path / "g.zip")
    assert "identity" not in found.__dict__
    assert found.id == graph.id
