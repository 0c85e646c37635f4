"""Steps that go on with a variable they have just updated: nothing may wait for itself, and all workers agree."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError
from autodist.graph import StepAnalysis, VariableNames, capture, node_of
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import compose, needs_servers

from . import single

X = np.ones((8, 2), np.float32)
BUILDERS = ("PSLoadBalancing(communicator='tcp')", "AllReduce(communicator='collective')")


def updating(times):
    """A step that updates its one variable several times, each time by the gradient at its new value."""
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        for _ in range(times):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ w))
            w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    step.variable = w
    return step


def for_rank(step, rank, builder, workers=2, arrays=(X,)):
    captured = capture(step, single.specs_of(arrays), VariableNames())
    spec = ResourceSpec.local(workers=workers)
    training, strategy = prepare(captured.graph, compose(builder, captured.graph, spec))
    layout = Layout.of(strategy, spec, rank, server=needs_servers(strategy))
    return rewrite(training, layout, kernels_for(training, strategy))[0]


def messages(graph, op):
    """Names of the messages that nodes of a type send or receive."""
    return {node.attr["collective"].s.decode() for node in graph.nodes.values() if node.op == op}


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("builder", BUILDERS)
@pytest.mark.parametrize("rank", [0, 1])
def test_nothing_waits_for_itself(rank, builder, times):
    graph = for_rank(updating(times), rank, builder)
    position = {name: k for k, name in enumerate(StepAnalysis(graph.graph_def, (), ()).order)}
    for node in graph.graph_def.node:
        assert all(position[node_of(tensor)] < position[node.name] for tensor in node.input)


@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_message_has_a_sender_and_a_receiver(times):
    zero, one = (for_rank(updating(times), rank, "PSLoadBalancing(communicator='tcp')") for rank in (0, 1))
    for sender, receiver in ((zero, one), (one, zero)):
        assert messages(sender, "AutodistSend") == messages(receiver, "AutodistReceive")


@pytest.mark.parametrize("times", [1, 2, 3])
def test_there_is_a_token_for_every_update_that_others_wait_for(times):
    sent = messages(for_rank(updating(times), 0, "PSLoadBalancing(communicator='tcp')"), "AutodistSend")
    assert sum("token" in name for name in sent) == times


def test_a_read_after_an_update_waits_for_its_token():
    graph = for_rank(updating(2), 1, "PSLoadBalancing(communicator='tcp')")
    [question] = [node for node in graph.nodes.values() if node.op == "AutodistAsk"]
    assert any("take_token_0" in tensor for tensor in question.input)
    assert [node.name for node in graph.nodes.values() if node.op == "AutodistReceive" and "value" in node.name]
    assert not graph.analyze().writes


@pytest.mark.parametrize("times", [1, 2])
def test_gradients_of_different_layers_travel_apart(times):
    graph = for_rank(updating(times), 0, BUILDERS[1])
    gradients = [point for point in graph.points if point.variable == "w"]
    assert len({point.layer for point in gradients}) == times
    reduced = [n for n in graph.nodes.values() if n.op == "CollectiveReduceV2" and "group_0" in n.name]
    assert len(reduced) == times


def test_an_inner_gradient_reaches_all_workers():
    """A second derivative: replicas compute with the inner gradient, so it does not go to the server alone."""
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                first = tf.reduce_mean(tf.square(x @ w))
            adapted = w - 0.1 * inner.gradient(first, w)
            loss = tf.reduce_mean(tf.square(x @ adapted - 1.0))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    graph = for_rank(step, 1, "PSLoadBalancing(communicator='tcp')")
    state = [point.name for point in graph.points if point.variable is None]
    assert sum(name.startswith("autodist_gradient") or "/autodist_gradient" in name for name in state) == 2


def test_a_second_derivative_through_a_sparse_gradient_is_refused():
    table, scale = tf.Variable(tf.ones([5, 2])), tf.Variable(2.0)

    def step(ids):
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                first = tf.reduce_mean(scale * tf.square(tf.nn.embedding_lookup(table, ids)))
            values = inner.gradient(first, table).values  # the line that is named
            loss = tf.reduce_mean(tf.square(values))
        scale.assign_sub(tape.gradient(loss, scale))
        return loss

    with pytest.raises(CaptureError, match=r"second derivative.*test_order\.py:\d+") as raised:
        capture(step, [tf.TensorSpec([4], tf.int32)], VariableNames())
    assert "stop_gradient" in raised.value.hint


@pytest.mark.parametrize("builder", BUILDERS)
def test_strings_are_joined_whatever_carries_them(builder):
    w = tf.Variable([[1.0], [2.0]], name="w")

    def step(x, text):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(tape.gradient(loss, w))
        return tf.strings.upper(text)

    arrays = (X, np.array(["word"] * 8, dtype=object))
    assert for_rank(step, 0, builder, arrays=arrays).outputs


def test_what_no_one_waits_for_travels_together_and_what_the_step_needs_alone():
    """Sums over the batch that the loss is made of may not wait for others, which exist only when it goes on."""
    w = tf.Variable([[1.0], [2.0]], name="w")
    kept = [tf.Variable(tf.zeros(2), name=f"kept{k}") for k in range(3)]

    def step(x):
        for power, one in enumerate(kept, start=1):
            one.assign(tf.reduce_mean(x**power, axis=0))
        scaled = x / tf.reduce_sum(tf.abs(x), axis=0) / tf.reduce_sum(x * x, axis=0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(scaled @ w))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    step.variables = (w, *kept)
    for rank in (0, 1):
        graph = for_rank(step, rank, "AllReduce(communicator='tcp')")
        points = [point for point in graph.points if point.variable is None]
        message = {point.name: closest(graph, point.synced[0], "AutodistAllReduce") for point in points}
        assert message["Mean"] == message["Mean_1"] == message["Mean_2"]
        for name in ("Sum", "Sum_1"):
            assert [other for other in message if message[other] == message[name]] == [name]


def closest(graph, name, op):
    """The nodes of a type that a node is made of, with none of the type between."""
    found, left = set(), [name]
    while left:
        node = graph.nodes[left.pop()]
        if node.op == op:
            found.add(node.name)
        else:
            left.extend(map(node_of, node.input))
    return found
