"""Gradients of tables that are looked up in and multiplied by: their terms travel apart, the training is the same."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import VariableNames, capture
from autodist.kernels import prepare
from autodist.strategies import PSSynchronizer, VariableConfig, get, traffic

from . import cluster
from .test_partition import Cut
from .test_replicate import SIZES, check

ROWS, LENGTH = 256, 2
TOKENS = tf.TensorSpec([None, LENGTH], tf.int32)


def tokens(count, seed=0):
    return np.random.default_rng(seed).integers(0, ROWS, (count, LENGTH)).astype(np.int32)


def language_model(rows=ROWS, lookups=1, clipped=False, factor=1.0):
    """A step of a model whose output layer is its table of embeddings."""
    random = np.random.default_rng(rows)
    table = tf.Variable(random.normal(size=(rows, 4)).astype(np.float32), name="table")
    weight = tf.Variable(random.normal(size=(4, 4)).astype(np.float32), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.add_n([tf.nn.embedding_lookup(table, (x + k) % rows) for k in range(lookups)])
            logits = tf.einsum("bld,vd->blv", tf.tanh(value @ weight), table)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(x % rows, factor * logits))
        gradients = tape.gradient(loss, [table, weight])
        norm = tf.linalg.global_norm(gradients)
        if clipped:
            gradients, _ = tf.clip_by_global_norm(gradients, 0.1)
        for variable, gradient in zip([table, weight], gradients, strict=True):
            variable.assign_sub(0.5 * gradient)
        return loss, norm

    return step, [table, weight]


def kinds(step, strategy="PSLoadBalancing"):
    """The kinds of gradients that each variable of a step has when it is prepared."""
    graph = capture(step, [TOKENS], VariableNames()).graph
    training, _ = prepare(graph, get(strategy).build(graph, cluster.spec(1, 1)))
    return {v.name: ["rows" if g.is_sparse else "dense" for g in v.gradients] for v in training.trainable}


def test_both_terms_travel_on_their_own():
    assert kinds(language_model()[0]) == {"table": ["dense", "rows"], "weight": ["dense"]}
    assert kinds(language_model(lookups=2)[0])["table"] == ["dense", "rows"]


@pytest.mark.parametrize("strategy", ["AllReduce", "PS(sync=False)", "PS(staleness=1)"])
def test_only_servers_that_get_it_as_it_is_get_terms(strategy):
    assert kinds(language_model()[0], strategy)["table"] == ["dense"]


def test_an_encoder_gets_the_whole_gradient():
    config = VariableConfig.whole("table", PSSynchronizer("h0:CPU:0"))
    encoded = VariableConfig.whole("table", PSSynchronizer("h0:CPU:0"), "FP16")
    assert (config.is_served_plainly, encoded.is_served_plainly) == (True, False)


def test_the_rows_are_among_what_a_plan_sends():
    graph = capture(language_model()[0], [TOKENS], VariableNames()).graph
    strategy = get("PSLoadBalancing").build(graph, cluster.spec(1, 1))
    few, many = (traffic(strategy, graph, cluster.spec(1, 1), batch_size=size) for size in (8, 16))
    more = [sum(t.flows[0].sent.values()) for t in (few, many)]
    half = 8 // 2 * LENGTH
    assert more[1] - more[0] == half * (4 * 4 + 8) + half * (8 + 4 * 4), "rows pushed; numbers and rows of lookups"


def test_a_small_table_stays_whole():
    """An example has two rows, and other examples others: all rows may be no less than the table."""
    assert kinds(language_model(rows=2 * 64)[0])["table"] == ["dense", "rows"]
    assert kinds(language_model(rows=2 * 64 - 1)[0])["table"] == ["dense"]


@settings(max_examples=15, deadline=None)
@given(SIZES, st.integers(1, 3), st.booleans(), st.integers(0, 2**16))
def test_equals_one_device_on_replicas(sizes, lookups, clipped, seed):
    step, variables = language_model(lookups=lookups, clipped=clipped)
    check(step, [[tokens(sum(sizes), seed)], [tokens(sum(sizes), seed + 1)]], sizes, *variables)


@settings(max_examples=15, deadline=None)
@given(SIZES, st.integers(1, 2), st.integers(0, 2**16))
def test_equals_one_device_in_parts(sizes, lookups, seed):
    step, variables = language_model(lookups=lookups)
    check(step, [[tokens(sum(sizes), seed)]], sizes, *variables, strategy=Cut(seed=seed))


@pytest.mark.parametrize("clipped", [False, True])
def test_equals_one_device_on_servers(clipped):
    def plan(graph):
        return cluster.served(graph, ["h0:CPU:0", "h1:CPU:0", "h2:CPU:0"], ["h1:CPU:0", "h2:CPU:0"])

    batches = [(tokens(6),), (tokens(5, 1),), (tokens(3, 2),)]
    cluster.certify(lambda: language_model(clipped=clipped)[0], batches, plan, cluster.spec(1, 1, 1))


def test_a_gradient_that_others_follow_from_stays_whole():
    """A step within the step: its gradient is of all examples, and so is what is computed with it."""
    table = tf.Variable(tf.ones([ROWS, 4]), name="table")

    def loss_of(values, x):
        rows = tf.nn.embedding_lookup(values, x)
        return tf.reduce_mean(tf.square(tf.einsum("bld,vd->blv", rows, values) - 1.0))

    def step(x):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner_loss = loss_of(table, x)
            moved = table - 0.1 * tf.convert_to_tensor(inner.gradient(inner_loss, table))
            loss = tf.reduce_mean(tf.square(tf.einsum("bld,vd->blv", tf.gather(moved, x), moved) - 1.0))
        table.assign_sub(0.1 * tf.convert_to_tensor(outer.gradient(loss, table)))
        return loss

    assert "rows" not in kinds(step)["table"]
