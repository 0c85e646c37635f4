"""Sufficient factors in the place of gradients: the same training, with other messages."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import BatchScaling, VariableNames, capture, factors_of
from autodist.kernels import Combine, prepare
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing, ShardConfig, VariableConfig

from . import single
from .factored import Factored
from .steps import ops, rewritten
from .test_replicate import SIZES, batch, check, trained

WORKERS, SERVER = Factored("workers"), Factored("server")


def activation(name):
    return {"linear": lambda x: x, "tanh": tf.tanh, "relu": tf.nn.relu, "softplus": tf.nn.softplus}[name]


def ones(x, depth=2):
    """One-hot rows; some ids are out of range, below and above."""
    return tf.one_hot(tf.cast(tf.floor(1.5 * x), tf.int64), depth)


def two_layers(kind, act, reduction, regularized, width):
    """A step over two dense layers, on examples or on sequences, written in one of several ways."""
    random = np.random.default_rng(width)
    w = tf.Variable(random.normal(size=(2, width)).astype(np.float32), name="w")
    u = tf.Variable(random.normal(size=(3, width)).astype(np.float32), name="u")
    bias = tf.Variable(tf.zeros([3]), name="bias")
    apply = {
        "matmul": lambda x: activation(act)(x @ w) @ tf.transpose(u) + bias,
        "transposed": lambda x: tf.matmul(activation(act)(x @ w), u, transpose_b=True) + bias,
        "einsum": lambda x: tf.einsum("bw,ow->bo", activation(act)(tf.einsum("bi,iw->bw", x, w)), u) + bias,
        "tensordot": lambda x: (
            tf.tensordot(activation(act)(tf.tensordot(x[:, None] * [[1.0], [2.0]], w, 1)), u, [2, 1]) + bias
        ),
        "batched": lambda x: (
            tf.matmul(activation(act)(tf.matmul(x[:, None] * [[1.0], [2.0]], w)), u, transpose_b=True) + bias
        ),
        "one_hot": lambda x: activation(act)(ones(x[:, 0]) @ w) @ tf.transpose(u) + bias,
        "one_hot_last": lambda x: (
            tf.matmul(activation(act)(tf.matmul(w, ones(x[:, 1], width), transpose_b=True)), -tf.ones([2, width]), True)
            @ tf.transpose(u)
            + bias
        ),
        "one_hot_pairs": lambda x: tf.tensordot(activation(act)(tf.tensordot(ones(x), w, 1)), u, [2, 1]) + bias,
        "tied": lambda x: tf.matmul(activation(act)(tf.matmul(x @ w, w, transpose_b=True)) @ w, u, transpose_b=True),
    }[kind]
    variables = [w, u] if kind == "tied" else [w, u, bias]
    reduce = {"mean": tf.reduce_mean, "sum": tf.reduce_sum}[reduction]

    def step(x):
        with tf.GradientTape() as tape:
            loss = reduce(tf.square(apply(x) - 1.0))
            loss += 0.3 * tf.nn.l2_loss(w) if regularized else 0.0
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.01 * gradient)
        return loss

    return step, variables


EXAMPLES = {
    "kind": st.sampled_from(
        ["matmul", "transposed", "einsum", "tensordot", "batched", "tied", "one_hot", "one_hot_last", "one_hot_pairs"]
    ),
    "act": st.sampled_from(["linear", "tanh", "relu", "softplus"]),
    "reduction": st.sampled_from(["mean", "sum"]),
    "regularized": st.booleans(),
    "width": st.integers(1, 5),
    "sizes": SIZES,
    "builder": st.sampled_from([WORKERS, SERVER]),
}


@settings(max_examples=8, deadline=None)
@given(**EXAMPLES)
def test_training_with_factors_equals_one_device(**example):
    equals_one_device(**example)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(**EXAMPLES)
def test_training_with_factors_equals_one_device_in_many_ways(**example):
    equals_one_device(**example)


def equals_one_device(kind, act, reduction, regularized, width, sizes, builder):
    step, variables = two_layers(kind, act, reduction, regularized, width)
    batches = [[batch(sum(sizes), seed)] for seed in range(2)]
    _, graph = single.rewritten(step, batches[0], len(sizes), strategy=builder)
    assert [len(p.local) for p in graph.points if p.variable in ("w", "u")] == [2] * (4 if kind == "tied" else 2)
    check(step, batches, sizes, *variables, strategy=builder)


@dataclass(frozen=True)
class BesideShards(Factored):
    """`u` in two shards, all else as :class:`Factored` says."""

    name: ClassVar[str] = "BesideShards"

    def config(self, variable, home, other, has_factors):
        if variable.name == "u":
            return VariableConfig("u", (ShardConfig(home), ShardConfig(home)), (2, 1))
        return super().config(variable, home, other, has_factors)


@pytest.mark.parametrize("kind", ["matmul", "tensordot", "batched", "tied"])
def test_factors_of_one_variable_beside_shards_of_another(kind):
    step, variables = two_layers(kind, "tanh", "mean", True, 3)
    batches = [[batch(5, seed)] for seed in range(3)]
    losses, expected = trained(step, batches, *variables)
    ran = single.run(step, batches, [2, 2, 1], strategy=BesideShards("server"))
    np.testing.assert_allclose(ran.outputs, losses, rtol=1e-5)  # the shards' updates show in the later ones
    np.testing.assert_allclose(ran.variables["w"], expected["w"], rtol=1e-5, atol=1e-6)


def one_layer(regularized=True):
    """A step over one dense layer of 20 inputs and 10 outputs."""
    kernel, bias = tf.Variable(tf.ones([20, 10]), name="kernel"), tf.Variable(tf.zeros([10]), name="bias")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ kernel + bias))
            loss += tf.nn.l2_loss(kernel) if regularized else 0.0
        for variable, gradient in zip([kernel, bias], tape.gradient(loss, [kernel, bias]), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return capture(step, [tf.TensorSpec([8, 20])], VariableNames()).graph


def kernel_points(builder, workers=2, replicas=1):
    """What each worker sends of the kernel's gradient, by name of the tensor with its shape."""
    seen = []

    def observe(name, graph):
        if name == "replicate":
            seen.append([p for p in graph.points if p.variable == "kernel"])

    rewritten(one_layer(), builder, workers, replicas, observer=observe)
    return seen


@pytest.mark.parametrize("builder", [WORKERS, SERVER], ids=str)
@pytest.mark.parametrize(("workers", "replicas"), [(2, 1), (2, 2), (3, 1)])
def test_rows_leave_a_worker_instead_of_the_gradient(builder, workers, replicas):
    for points in kernel_points(builder, workers, replicas):
        (point,) = points
        assert point.shapes == ((None, 20), (None, 10))
        assert point.combine is Combine.CONCAT


@pytest.mark.parametrize("builder", [AllReduce(communicator="collective"), PSLoadBalancing()], ids=str)
def test_without_factors_the_gradient_leaves_it(builder):
    for points in kernel_points(builder):
        assert [point.shapes for point in points] == [((20, 10),)]


def test_every_worker_gathers_one_message_and_rebuilds_the_gradient():
    for graph in rewritten(one_layer(), WORKERS, 2, 1):
        gathered = {graph.nodes[n].attr["T"].type for n in ops(graph, "CollectiveGatherV2")}
        assert gathered == {tf.float32.as_datatype_enum, tf.int32.as_datatype_enum}  # pairs, and how many there are
        reduced = [graph.nodes[n] for n in ops(graph, "CollectiveReduceV2") if "/group_" in n]
        assert len(reduced) == 1  # the bias
        assert len(ops(graph, "AssignSubVariableOp")) == 2


def test_only_the_server_rebuilds_the_gradient():
    server, other = rewritten(one_layer(), SERVER, 2, 1)
    rebuilt = [[n for n in ops(graph, "MatMul") if n.startswith("autodist/factors/")] for graph in (server, other)]
    assert [len(names) for names in rebuilt] == [1, 0]
    components = [len(other.nodes[n].attr["T"].list.type) for n in ops(other, "AutodistSend")]
    assert components.count(2) == 1


def test_nobody_computes_the_gradient_of_his_own_examples():
    source = one_layer()
    (product,) = (p.node for gradient in factors_of(source, "kernel").gradients for p in gradient.products)
    for graph in [*rewritten(source, WORKERS, 2, 1), *rewritten(source, SERVER, 2, 1)]:
        assert f"replica_0/{product}" not in graph.nodes
    for graph in rewritten(source, AllReduce(communicator="collective"), 2, 1):
        assert f"replica_0/{product}" in graph.nodes


def test_a_graph_without_factors_is_left_alone():
    graph, spec = one_layer(), ResourceSpec.local(workers=2)
    strategy = AllReduce(communicator="collective").build(graph, spec)
    assert prepare(graph, strategy) == (graph, strategy)
    assert prepare(graph, strategy)[0] is graph


def test_factored_gradients_are_marked_in_the_place_of_the_whole():
    graph, spec = one_layer(), ResourceSpec.local(workers=2)
    factored, strategy = prepare(graph, SERVER.build(graph, spec))
    (gradient,) = factored.variable("kernel").gradients
    assert gradient.dense is None
    assert set(gradient.tensors) < set(factored.analysis.marks)
    assert graph.variable("kernel").gradients[0].dense not in factored.analysis.marks
    assert strategy.config("kernel").shards[0].compressor is None
    assert {factored.analysis.scaling(factored.analysis.nodes[t].input[0]) for t in gradient.tensors} == {
        BatchScaling.ROWS
    }
