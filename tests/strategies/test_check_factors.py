"""What may travel as sufficient factors, and how."""

import dataclasses

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    verify,
)

from .examples import ALL, graph, spec, variable

D = spec("h0", "h1")
HOME = PSSynchronizer("h0:CPU:0")
RING = AllReduceSynchronizer(0, communicator="horovod")
TO_ALL = BroadcastSynchronizer("horovod")


@pytest.fixture(scope="module")
def dense():
    """The graph of a layer with a bias, and a table."""
    kernel, bias = tf.Variable(tf.ones([4, 3]), name="kernel"), tf.Variable(tf.zeros([3]), name="bias")
    table = tf.Variable(tf.ones([9, 4]), name="table")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) @ kernel + bias))
        gradients = tape.gradient(loss, [kernel, bias, table])
        kernel.assign_sub(gradients[0])
        bias.assign_sub(gradients[1])
        table.scatter_sub(gradients[2])
        return loss

    return capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames()).graph


def problems(g, communicator="tcp", **configs):
    parts = {"kernel": RING, "bias": dataclasses.replace(RING, group=1), "table": dataclasses.replace(RING, group=2)}
    parts = {name: VariableConfig.whole(name, synchronizer) for name, synchronizer in parts.items()}
    replicas = ("h0:CPU:0", "h1:CPU:0")
    strategy = Strategy(GraphConfig(replicas, communicator), tuple((parts | configs).values()))
    return verify(strategy, g, D, available_communicators=ALL)


def whole(name, synchronizer, compressor=None):
    return {name: VariableConfig.whole(name, synchronizer, compressor)}


@pytest.mark.parametrize(
    ("synchronizer", "compressor"),
    [(TO_ALL, None), (TO_ALL, "SufficientFactors"), (HOME, "SufficientFactors")],
)
def test_the_kernel_of_a_dense_layer_may_travel_as_factors(dense, synchronizer, compressor):
    assert problems(dense, **whole("kernel", synchronizer, compressor)) == ()


def test_collectives_carry_factors_where_they_carry_gradients(dense):
    collective = BroadcastSynchronizer("collective")
    assert problems(dense, "collective", **whole("kernel", collective)) == ()
    (beside_servers,) = problems(dense, **whole("kernel", collective), **whole("bias", HOME))
    assert (beside_servers.variable, beside_servers.allowed) == (
        "kernel",
        "'horovod' or 'tcp' together with parameter servers",
    )


@pytest.mark.parametrize(
    ("name", "synchronizer", "compressor", "aspect", "reason"),
    [
        ("bias", TO_ALL, None, "synchronizer", "(Sum) is neither a product over the batch nor linear in one"),
        ("bias", HOME, "SufficientFactors", "compressor", "(Sum) is neither a product over the batch"),
        ("table", TO_ALL, None, "synchronizer", "its gradient is sparse"),
        ("table", HOME, "SufficientFactors", "compressor", "its gradient is sparse"),
        ("kernel", RING, "SufficientFactors", "compressor of an AllReduce", "use Broadcast, or PS with the encoder"),
        ("kernel", TO_ALL, "FP16", "compressor", "Broadcast sends the factors as they are"),
    ],
)
def test_what_has_no_factors_is_refused_with_the_reason(dense, name, synchronizer, compressor, aspect, reason):
    found = problems(dense, **whole(name, synchronizer, compressor))
    assert [(p.variable, p.aspect) for p in found if reason in p.reason] == [(name, aspect)]


@pytest.mark.parametrize(("synchronizer", "compressor"), [(TO_ALL, None), (HOME, "SufficientFactors")])
def test_what_has_factors_is_not_partitioned(dense, synchronizer, compressor):
    config = VariableConfig("kernel", (ShardConfig(synchronizer, compressor),) * 2, (2, 1))
    found = [p for p in problems(dense, kernel=config) if "sufficient factors" in p.allowed]
    assert [(p.variable, p.aspect, p.given) for p in found] == [("kernel", "partition", "(2, 1)")]


def test_a_missing_communicator_is_named():
    g = graph(variable("kernel"))
    strategy = Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "tcp"), (VariableConfig.whole("kernel", TO_ALL),))
    assert strategy.carriers == ("horovod", "tcp")
    found = verify(strategy, g, D, available_communicators=("tcp", "collective"))
    assert [p.given for p in found if "communicator" in p.aspect] == ["'horovod'"]


def test_a_graph_without_ops_has_no_factors():
    g = graph(variable("kernel"))
    strategy = Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "tcp"), (VariableConfig.whole("kernel", TO_ALL),))
    (found,) = verify(strategy, g, D, available_communicators=ALL)
    assert found.reason == "it has no sufficient factors: the graph's ops are not known"


def test_coupled_variables_may_be_broadcast_and_reduced():
    g = graph(variable("a", coupled=("a", "b")), variable("b", coupled=("a", "b")))
    configs = (VariableConfig.whole("a", TO_ALL), VariableConfig.whole("b", RING))
    strategy = Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "horovod"), configs)
    found = verify(strategy, g, D, available_communicators=ALL)
    assert not [p for p in found if "coupled" in p.aspect]
