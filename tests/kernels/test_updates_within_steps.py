"""Servers whose variables are updated several times within a step, and read before and after, equal one device."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import VariableNames, capture
from autodist.strategies import get
from autodist.testing import certify_in_process

from . import plans
from .steps import layers, rewritten

X = np.random.default_rng(5).normal(size=(6, 4)).astype(np.float32)
BOTH = ("h0:CPU:0", "h1:CPU:0")


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


def test_values_that_come_once_are_those_of_one_device():
    def plan(graph):
        return plans.served(graph, BOTH, ["h0:CPU:0", "h1:CPU:0"])

    certify_in_process(regularized, [(X,), (X / 2,), (-X,)], plan, plans.hosts(1, 1))


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=4),
    st.lists(st.sampled_from(["h0:CPU:0", "h0:CPU:1", "h1:CPU:0", "h2:CPU:1"]), min_size=1, max_size=3),
    st.sampled_from([("h0:CPU:0", "h1:CPU:0", "h2:CPU:0"), ("h0:CPU:0", "h0:CPU:1", "h1:CPU:0", "h2:CPU:1")]),
)
@settings(max_examples=6, deadline=None)
def test_any_places_equal_one_device(widths, destinations, replicas):
    def plan(graph):
        return plans.served(graph, replicas, destinations)

    certify_in_process(lambda: layers(*widths), [(X,), (X / 2,)], plan, plans.hosts(2, 2, 2))


def test_all_workers_give_a_server_the_examples_that_its_update_looks_at():
    """A line search changes variables in a loop by the loss of the whole batch, which the server alone computes."""
    w = tf.Variable([[0.3], [-0.2]], name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w - 1.0))
        [gradient] = tape.gradient(loss, [w])
        rate, begun, found = tf.constant(2.0), tf.identity(w), loss
        for _ in tf.range(6):
            w.assign(begun - rate * gradient)
            found = tf.reduce_mean(tf.square(x @ w - 1.0))
            if found < loss:
                break
            rate = 0.5 * rate
        return found

    graph = capture(step, [tf.TensorSpec([None, 2])], VariableNames()).graph
    met = [
        sorted(n.attr["collective"].s for n in found.graph_def.node if n.op.startswith("AutodistAll"))
        for found in rewritten(graph, get("PSLoadBalancing(communicator='tcp')"), 3, 1)
    ]
    assert met[0] == met[1] == met[2]
    assert any(name.endswith(b"/x") for name in met[0])


def test_all_workers_give_a_server_the_examples_that_it_begins_with():
    """A layer takes its first scale from the first batch, in a branch: the server alone reads these examples."""
    scale, is_set = tf.Variable(tf.ones(2), name="scale"), tf.Variable(False, trainable=False, name="is_set")

    def step(x):
        if not is_set:
            scale.assign(1.0 / tf.math.reduce_std(x, axis=0))
            is_set.assign(True)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x * scale - 1.0))
        scale.assign_sub(0.1 * tape.gradient(loss, scale))
        return loss

    graph = capture(step, [tf.TensorSpec([None, 2])], VariableNames()).graph
    assert graph.variable("is_set").owners == ("scale",), "it lives with what the branch changes along with it"
    met = [
        sorted(n.attr["collective"].s for n in found.graph_def.node if n.op.startswith("AutodistAll"))
        for found in rewritten(graph, get("PSLoadBalancing(communicator='tcp')"), 3, 1)
    ]
    assert met[0] == met[1] == met[2]
    assert any(name.endswith(b"/x") for name in met[0])
