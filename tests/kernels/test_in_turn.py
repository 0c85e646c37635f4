"""Overlap: a gradient leaves as soon as it exists, unless it is told to wait for all others."""

import pytest
import tensorflow as tf

from autodist.graph import StepAnalysis, VariableNames, ancestors, capture, node_of
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing, needs_servers

from .factored import Factored
from .steps import captured
from .test_order import updating
from .test_replicate import batch, check

BUILDERS = [PSLoadBalancing(communicator="tcp"), AllReduce(chunk_size=1, communicator="collective"), Factored()]


def for_second_worker(graph, builder, *, overlap, replicas=1):
    spec = ResourceSpec.local(workers=2, cpus=replicas)
    training, strategy = prepare(graph, builder.build(graph, spec))
    layout = Layout.of(strategy, spec, 1, server=needs_servers(strategy))
    return rewrite(training, layout, kernels_for(training, strategy, overlap=overlap))[0]


def gradients_before_sending(graph):
    """By node that sends a gradient, how many gradients of replicas it has to wait for."""
    sending = [
        name
        for name, node in graph.nodes.items()
        if (node.op == "AutodistSend" and "push_gradient" in name)
        or (node.op == "CollectiveReduceV2" and "/group_" in name)
    ]
    return {s: sum("/autodist/weighted/" in n for n in ancestors(graph.nodes, [s])) for s in sending}


@pytest.mark.parametrize("builder", BUILDERS[:2], ids=str)
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_gradient_waits_for_all_others_only_when_told(builder, replicas):
    source = captured(num_dense=3, sparse=False)
    alone = gradients_before_sending(for_second_worker(source, builder, overlap=True, replicas=replicas))
    in_turn = gradients_before_sending(for_second_worker(source, builder, overlap=False, replicas=replicas))
    assert set(alone.values()) <= {1, replicas}  # one variable's: of one replica, or of all
    assert set(in_turn.values()) == {3 * replicas}
    assert alone.keys() == in_turn.keys()


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_nothing_waits_for_itself(builder):
    step = updating(3)
    source = capture(step, [tf.TensorSpec([8, 2])], VariableNames()).graph
    graph = for_second_worker(source, builder, overlap=False)
    position = {name: k for k, name in enumerate(StepAnalysis(graph.graph_def, (), ()).order)}
    assert all(position[node_of(t)] < position[n] for n, node in graph.nodes.items() for t in node.input)


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
def test_training_is_the_same(builder):
    step = updating(2)
    check(step, [[batch(5, seed)] for seed in range(2)], [2, 2, 1], step.variable, strategy=builder, overlap=False)
