"""Where memory is short, updates wait for each other: nothing else does, and what is trained is the same."""

from itertools import pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import StepAnalysis, VariableNames, ancestors, capture, node_of
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import compose, needs_servers

from . import single
from .test_order import updating
from .test_replicate import batch
from .test_replicate import trained as one_device

SIDE = 6
STRATEGIES = (
    "Tiled(dims=('*=1',))",
    "AllReduce(communicator='tcp')",
    "PartitionedPS(communicator='tcp', min_shard_bytes=0)",
)
OTHERS = (
    "PSLoadBalancing(communicator='tcp')",
    "PSLoadBalancing(communicator='tcp', local_proxy=True)",
    "PSLoadBalancing(communicator='tcp', sync=False)",
)
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.Adam(0.1),
    "norms": lambda: keras.optimizers.Adam(0.1, clipnorm=0.1),
    "momentum": lambda: keras.optimizers.SGD(1.0, momentum=0.9, use_ema=True),
    "one norm": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.1),
}


def trained(optimizer, widths=(SIDE, SIDE, SIDE, 2)):
    """A step over some weights, each larger than those that follow, or as large; and these."""
    sizes = (SIDE, *widths)
    weights = [
        tf.Variable(0.5 * tf.sin(tf.reshape(tf.range(float(a * b)), [a, b])), name=f"w{k}")
        for k, (a, b) in enumerate(pairwise(sizes))
    ]
    optimizer.build(weights)

    def step(x):
        with tf.GradientTape() as tape:
            value = x
            for weight in weights:
                value = tf.tanh(value @ weight)
            loss = tf.reduce_mean(tf.square(value - 0.5))
        optimizer.apply(tape.gradient(loss, weights), weights)
        return loss

    return step, weights


def two_trained():
    """Two losses, of which the second is of what the update by the first has made."""
    a, b = (tf.Variable(tf.eye(SIDE), name=name) for name in "ab")

    def step(x):
        for trained_now in (a, b):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ a @ b - 0.5))
            trained_now.assign_sub(0.1 * tape.gradient(loss, trained_now))
        return loss

    return step, [a, b]


def for_rank(step, rank, strategy):
    graph = capture(step, [tf.TensorSpec([8, SIDE])], VariableNames()).graph
    spec = ResourceSpec.local(workers=2)
    training, prepared = prepare(graph, compose(strategy, graph, spec))
    layout = Layout.of(prepared, spec, rank, server=needs_servers(prepared))
    return rewrite(training, layout, kernels_for(training, prepared, updates_in_turn=True))[0]


def writes_by_variable(graph):
    """By trained variable, that whose gradient exists first at the front, what changes it or its own slots."""
    owner = {v.handle: v.owners[0] if len(v.owners) == 1 else v.name for v in graph.variables}
    order = sorted((v for v in graph.variables if v.gradients), key=lambda v: v.backward_order)
    writes = graph.analyze().writes.values()
    found = {v.name: {w.node for w in writes if owner[w.handles[0]] == v.name} for v in order}
    return {name: nodes for name, nodes in found.items() if nodes}


@pytest.mark.parametrize(
    ("optimizer", "strategy"), [("adam", STRATEGIES[0]), ("momentum", OTHERS[0]), ("one norm", STRATEGIES[1])]
)
def test_updates_wait_for_those_before(optimizer, strategy):
    step, _ = trained(OPTIMIZERS[optimizer]())
    for rank in range(2):
        graph = for_rank(step, rank, strategy)
        updates = list(writes_by_variable(graph).values())
        assert len(updates) > 1
        for before, after in pairwise(updates[1:]):  # the first is small, and runs with the second
            for node in after:
                assert before <= ancestors(graph.nodes, [node])


def test_small_updates_run_at_once():
    step, _ = trained(OPTIMIZERS["adam"](), (2, 1, 1))
    updates = list(writes_by_variable(for_rank(step, 0, STRATEGIES[1])).values())
    assert len(updates) == 3
    graph = for_rank(step, 0, STRATEGIES[1])
    for before, after in pairwise(updates[:2]):
        assert all(before.isdisjoint(ancestors(graph.nodes, [node])) for node in after)


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        *((kind, STRATEGIES[0]) for kind in ("momentum", "two")),
        *((kind, STRATEGIES[1]) for kind in ("norms", "two", "again")),
        *((kind, OTHERS[0]) for kind in ("one norm", "two")),
        *(
            pytest.param(kind, strategy, marks=pytest.mark.slow)
            for kind in ("adam", "norms", "two", "again")
            for strategy in (STRATEGIES[2], *OTHERS[1:])
            if (kind, strategy) != ("again", OTHERS[2])  # refused: tests/strategies/test_check_servers.py
        ),
    ],
)
def test_nothing_waits_for_itself(kind, strategy):
    if kind in OPTIMIZERS:
        step, _ = trained(OPTIMIZERS[kind]())
    elif kind == "two":
        step, _ = two_trained()
    else:
        step = small(updating(3))
    for rank in range(2):
        graph = for_rank(step, rank, strategy)
        position = {name: k for k, name in enumerate(StepAnalysis(graph.graph_def, (), ()).order)}
        assert all(position[node_of(t)] < position[n] for n, node in graph.nodes.items() for t in node.input)


def small(step):
    """The same step of wider batches."""
    return lambda x: step(x[:, :2])


@pytest.mark.parametrize("kind", ["momentum", "two", pytest.param("norms", marks=pytest.mark.slow)])
def test_training_is_the_same(kind):
    def made():
        return two_trained() if kind == "two" else trained(OPTIMIZERS[kind]())

    x, (step, weights) = batch(7, width=SIDE), made()
    outputs, values = one_device(step, [[x]], *weights)
    step, weights = made()
    ran = single.run(step, [[x]], [4, 3], strategy="AllReduce(communicator='tcp')", updates_in_turn=True)
    np.testing.assert_allclose(ran.outputs[0], outputs[0], rtol=1e-5)
    for weight in weights:
        name = weight.name.removesuffix(":0")
        assert np.abs(values[name] - weight.numpy()).max() > 1e-3, name
        np.testing.assert_allclose(ran.variables[name], values[name], rtol=1e-5, atol=1e-5, err_msg=name)


def test_nothing_new_without_need():
    step, _ = trained(OPTIMIZERS["adam"]())
    x = batch(7, width=SIDE)
    graphs = [single.rewritten(step, [x], 1, updates_in_turn=wanted)[1] for wanted in (False, True)]
    assert [any("updates_in_turn" in name for name in graph.nodes) for graph in graphs] == [False, True]
