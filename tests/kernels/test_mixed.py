"""Rows of mixed gradients that travel apart: the same training, with other messages."""

from dataclasses import replace

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import VariableNames, ancestors, capture, node_of
from autodist.kernels import Combine, prepare
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing, StrategyBuilder

from . import cluster
from .steps import rewritten
from .test_partition import OPTIMIZERS, Cut, Model
from .test_partition import check as check_parts
from .test_replicate import SIZES


class Apart(StrategyBuilder):
    """Another builder's strategy, with the rows of `w` apart."""

    name = "Apart"

    def __init__(self, inner):
        object.__setattr__(self, "inner", inner)

    def build(self, graph, spec):
        strategy = self.inner.build(graph, spec)
        return replace(strategy, graph=replace(strategy.graph, apart=("w",)))


LINEAR = ("raw", "momentum", "weight_decay", "ema", "v1_sgd", "v1_momentum")
"""Optimizers that don't blow rounding errors up, as Adam does those of a bias whose gradient is almost nothing."""


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(LINEAR), SIZES, st.integers(0, 99))
def test_training_equals_one_device_whole_and_in_parts(optimizer, sizes, seed):
    equals_one_device(optimizer, sizes, seed)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(LINEAR), SIZES, st.integers(0, 99))
def test_training_equals_one_device_with_many_optimizers(optimizer, sizes, seed):
    equals_one_device(optimizer, sizes, seed)


def equals_one_device(optimizer, sizes, seed):
    for inner in (Cut(), Cut(seed=seed)):
        check_parts(Model("tied", OPTIMIZERS[optimizer](), seed), sizes, Apart(inner), seed)


def tied_step(regularized=False, num_lookups=1, reduce=tf.reduce_mean):
    """A table, looked up in and multiplied with, and a dense layer between the two."""
    random = np.random.default_rng(0)
    w = tf.Variable(random.normal(size=(12, 3)).astype(np.float32), name="w")
    u = tf.Variable(random.normal(size=(3, 3)).astype(np.float32), name="u")

    def step(ids):
        with tf.GradientTape() as tape:
            rows = tf.add_n([tf.gather(w, (ids + k) % 12) for k in range(num_lookups)])
            loss = reduce(tf.matmul(tf.tanh(rows @ u), w, transpose_b=True) ** 2)
            loss += tf.nn.l2_loss(w) if regularized else 0.0
        for variable, gradient in zip([w, u], tape.gradient(loss, [w, u]), strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    return step


def tied_graph(**options):
    return capture(tied_step(**options), [tf.TensorSpec([8, 2], tf.int32)], VariableNames()).graph


def points_of(builder, workers=2, replicas=1, **options):
    """What each worker joins of the gradient of `w`."""
    seen = []

    def observe(name, graph):
        if name == "replicate":
            seen.append((graph, [p for p in graph.points if (p.variable or "").startswith("w")]))

    rewritten(tied_graph(**options), Apart(builder), workers, replicas, observer=observe)
    return seen


BUILDERS = [AllReduce(communicator="collective"), PSLoadBalancing()]


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
@pytest.mark.parametrize("num_lookups", [1, 2])
def test_rows_and_the_rest_leave_by_themselves(builder, num_lookups):
    for _, points in points_of(builder, num_lookups=num_lookups):
        dense, *rows = points
        assert (dense.combine, dense.shapes) == (Combine.SUM, ((12, 3),))
        assert [point.combine for point in rows] == [Combine.CONCAT] * len(rows)
        assert rows


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_the_rest_does_not_wait_for_the_backward_pass(builder):
    for graph, (dense, rows) in points_of(builder):
        (gradient_of_u,) = (p for p in graph.points if p.variable == "u")
        needed = ancestors(graph.nodes, [node_of(dense.local[0])])
        assert not needed & {node_of(t) for t in (*rows.local, *gradient_of_u.local)}
        assert not [n for n in needed if graph.nodes[n].op == "UnsortedSegmentSum"]


def test_workers_do_not_add_rows_up_for_a_server():
    server, other = rewritten(tied_graph(), Apart(PSLoadBalancing()), 2, 1)
    assert [sum(n.op == "UnsortedSegmentSum" for n in g.graph_def.node) for g in (server, other)] == [1, 0]


def on_servers(**options):
    """The table on one host and the dense layer on another one, with the rows of `w` apart."""

    def plan(graph):
        strategy = cluster.served(graph, ("h0:CPU:0", "h0:CPU:1", "h1:CPU:0"), ("h1:CPU:0", "h0:CPU:0"), **options)
        return replace(strategy, graph=replace(strategy.graph, apart=("w",)))

    return plan


@pytest.mark.parametrize("regularized", [False, True])
@pytest.mark.parametrize("num_lookups", [1, 2])
@pytest.mark.parametrize("reduce", [tf.reduce_mean, tf.reduce_sum], ids=["mean", "sum"])
@pytest.mark.parametrize("options", [{}, {"local_proxy": True}, {"transfer": ("h0:CPU:0",)}], ids=str)
def test_servers_train_as_one_device_does(regularized, num_lookups, reduce, options):
    random = np.random.default_rng(1)
    batches = [[random.integers(12, size=(7, 2)).astype(np.int32)] for _ in range(3)]
    cluster.certify(
        lambda: tied_step(regularized, num_lookups, reduce), batches, on_servers(**options), cluster.spec(2, 1)
    )


def test_a_strategy_that_takes_nothing_apart_leaves_the_graph_as_it_is():
    graph, spec = tied_graph(), ResourceSpec.local(workers=2)
    strategy = AllReduce(communicator="collective").build(graph, spec)
    assert strategy.graph.apart is None  # nobody has said how large batches are
    assert prepare(graph, strategy) == (graph, strategy)


def test_the_prepared_strategy_has_no_such_wish():
    graph, spec = tied_graph(), ResourceSpec.local(workers=2)
    prepared, strategy = prepare(graph, Apart(PSLoadBalancing()).build(graph, spec))
    assert strategy.graph.apart is None
    assert [g.is_sparse for g in prepared.variable("w").gradients] == [False, True]
    assert graph.variable("w").gradients[0].dense not in prepared.analysis.marks
