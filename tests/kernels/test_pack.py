"""Small tensors between a worker and a server travel as one message; what is computed stays the same."""

import dataclasses
import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import VariableNames, capture, node_of
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.strategies import PSSynchronizer, VariableConfig
from autodist.testing import certify_in_process

from . import plans

X = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)
BOTH = ("h0:CPU:0", "h1:CPU:0")


def layers(*widths, dtype="float32", rounds=1):
    """A step of dense layers with biases; each round updates all variables by their gradients at the new values."""
    sizes = (4, *widths)
    weights = [
        tf.Variable(tf.cast(tf.sin(tf.reshape(tf.range(float(a * b)) + k, [a, b])), dtype), name=f"w{k}")
        for k, (a, b) in enumerate(itertools.pairwise(sizes))
    ]
    biases = [tf.Variable(tf.zeros([b], dtype), name=f"b{k}") for k, b in enumerate(widths)]
    variables = [v for pair in zip(weights, biases, strict=True) for v in pair]

    def step(x):
        for _ in range(rounds):
            with tf.GradientTape() as tape:
                value = tf.cast(x, dtype)
                for weight, bias in zip(weights, biases, strict=True):
                    value = tf.tanh(value @ weight + bias)
                loss = tf.reduce_mean(tf.square(value - 0.5))
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.1 * gradient)
        return loss

    return step


def crossing(graph):
    """The tensors that go from one worker to another, with the workers' numbers."""
    found = set()
    for node in graph.graph_def.node:
        for tensor in node.input:
            ends = [graph.nodes[node_of(tensor)].device, node.device]
            sender, receiver = (end.split("/task:")[1][0] for end in ends)
            if sender != receiver and not tensor.startswith("^"):
                found.add((sender, receiver, tensor))
    return found


def for_rank(step, rank, plan, hosts):
    captured = capture(step, [tf.TensorSpec([None, 4])], VariableNames())
    training, strategy = prepare(captured.graph, plan(captured.graph))
    layout = Layout.of(strategy, hosts, rank, server=True)
    return rewrite(training, layout, kernels_for(training, strategy))[0]


def counts(pack_bytes, destinations=("h0:CPU:0",), step=None):
    """How many tensors the second worker gets and sends, those besides variables and gradients not counted."""
    plan = lambda g: plans.served(g, BOTH, destinations, pack_bytes)  # noqa: E731
    crossed = crossing(for_rank(step or layers(3, 3, 2), 1, plan, plans.hosts(1, 1)))
    bare = [
        (s, r) for s, r, tensor in crossed if "state_" not in tensor and "rows" not in tensor and "loss" not in tensor
    ]
    return bare.count(("0", "1")), bare.count(("1", "0"))


def test_values_and_gradients_of_a_server_are_one_message_each():
    apart, together = counts(None), counts(1 << 20)
    assert apart[0] - together[0] == 5
    assert apart[1] - together[1] == 5


def test_only_what_is_small_is_packed():
    step = layers(9, 9, 9)
    apart, some = counts(None, step=step), counts(3 * 9 * 4, step=step)  # three biases, but none of the weights
    assert apart[0] - some[0] == 2
    assert apart[1] - some[1] == 2
    assert counts(4 * 2) == counts(None)  # a single one has no company


def test_types_travel_apart():
    half = layers(3, dtype="float64")
    whole = layers(3)

    def step(x):
        return half(x), whole(x)

    apart, together = counts(None, step=step), counts(1 << 20, step=step)
    assert apart[0] - together[0] == 2
    assert apart[1] - together[1] == 2


def test_what_has_a_copy_on_the_worker_is_not_fetched():
    def plan(graph):
        strategy = plans.served(graph, BOTH, ["h0:CPU:0"])
        proxied = PSSynchronizer("h0:CPU:0", local_proxy=True)
        configs = (VariableConfig.whole("w0", proxied), *(c for c in strategy.variables if c.variable != "w0"))
        return dataclasses.replace(strategy, variables=configs)

    graph = for_rank(layers(3, 2), 1, plan, plans.hosts(1, 1))
    [message] = [n for n in graph.graph_def.node if n.name.startswith("autodist/packed/values") and n.op == "ConcatV2"]
    assert message.attr["N"].i == 3


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("destinations", [BOTH[:1], BOTH[::-1]])
def test_equals_one_device_however_often_variables_are_updated(rounds, destinations):
    def plan(graph):
        return plans.served(graph, BOTH, destinations)

    certify_in_process(lambda: layers(3, 2, rounds=rounds), [(X,), (2 * X,), (X[:3],)], plan, plans.hosts(1, 1))


def test_what_waits_for_an_update_does_not_hold_up_what_comes_before_it():
    """The second layer learns from what the first has just become: their gradients can't travel together."""

    def make():
        first, second = tf.Variable(tf.eye(4), name="first"), tf.Variable(tf.ones([4, 1]), name="second")

        def step(x):
            for variable in (first, second):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(x @ first @ second - 0.3))
                variable.assign_sub(0.1 * tape.gradient(loss, variable))
            return loss

        return step

    def plan(graph):
        return plans.served(graph, BOTH, BOTH[:1])

    certify_in_process(make, [(X,), (X / 2,), (-X,)], plan, plans.hosts(1, 1))


def scaled_between(same):
    """Two gradients, and between them a change that takes none of them but waits for those of its variable."""
    v = tf.Variable([[1.0], [0.5], [-0.5], [0.2]], name="v")
    u = v if same else tf.Variable([[0.3], [0.1], [0.4], [-0.2]], name="u")

    def gradient(variable, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ (u + v) - 0.3))
        return tape.gradient(loss, variable), loss

    def step(x):
        first, _ = gradient(v, x)
        v.assign(0.9 * v)
        second, loss = gradient(u, x)
        v.assign_sub(0.1 * first)
        u.assign_sub(0.1 * second)
        return loss

    return step


@pytest.mark.parametrize("same", [True, False])
def test_gradients_with_an_update_between_them_do_not_wait_for_each_other(same):
    def plan(graph):
        return plans.served(graph, BOTH, BOTH[:1])

    certify_in_process(lambda: scaled_between(same), [(X,), (X / 2,), (-X,)], plan, plans.hosts(1, 1))


def test_a_message_is_not_larger_than_the_limit():
    apart, together = counts(None, step=layers(*[4] * 9)), counts(64, step=layers(*[4] * 9))
    # Nine weights of 64 bytes fill a message each, nine biases of 16 three of them.
    assert apart[0] - together[0] == 9 - 3
    assert apart[1] - together[1] == 9 - 3
    some = counts(128, step=layers(*[4] * 9))
    assert apart[0] - some[0] == apart[1] - some[1] == 18 - 9, (
        "a weight with a bias each; two weights have no room for one"
    )


def test_a_value_that_is_read_twice_travels_once():
    w = tf.Variable(tf.ones([4, 1]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w)) + 0.1 * tf.reduce_sum(tf.square(w.read_value()))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    apart = counts(None, step=step)
    assert [apart[0] - counts(limit, step=step)[0] for limit in (16, 8)] == [1, 1], "however large it is"


def regularized():
    """A weight that a regularizer reads too, a table that is looked up and read as a whole; each before and after."""
    w, table = tf.Variable(tf.ones([4, 3]), name="w"), tf.Variable(tf.sin(tf.range(12.0))[:, None], name="table")

    def step(x):
        rows = tf.cast(tf.math.floormod(tf.abs(x[:, 0]) * 10, 12), tf.int32)
        for _ in range(2):
            with tf.GradientTape() as tape:
                known = tf.nn.embedding_lookup(table, rows)
                penalty = tf.reduce_sum(tf.square(w.read_value())) + tf.reduce_sum(tf.square(table))
                loss = tf.reduce_mean(tf.square(x @ w - known)) + 0.1 * penalty
            for variable, gradient in zip((w, table), tape.gradient(loss, (w, table)), strict=True):
                variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    return step


@pytest.mark.parametrize("pack_bytes", [None, 1, 1 << 20])
def test_values_of_any_size_that_come_once_are_those_of_one_device(pack_bytes):
    def plan(graph):
        return plans.served(graph, BOTH, ["h0:CPU:0", "h1:CPU:0"], pack_bytes)

    certify_in_process(regularized, [(X,), (X / 2,), (-X,)], plan, plans.hosts(1, 1))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.sampled_from([None, 8, 16, 48, 1 << 20]),
    st.lists(st.sampled_from(["h0:CPU:0", "h0:CPU:1", "h1:CPU:0", "h2:CPU:1"]), min_size=1, max_size=3),
    st.sampled_from([("h0:CPU:0", "h1:CPU:0", "h2:CPU:0"), ("h0:CPU:0", "h0:CPU:1", "h1:CPU:0", "h2:CPU:1")]),
)
@settings(max_examples=6, deadline=None)
def test_any_limit_equals_one_device(widths, pack_bytes, destinations, replicas):
    def plan(graph):
        return plans.served(graph, replicas, destinations, pack_bytes)

    certify_in_process(lambda: layers(*widths), [(X,), (X / 2,)], plan, plans.hosts(2, 2, 2))
