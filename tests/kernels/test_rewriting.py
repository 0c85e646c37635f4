"""What the kernels make of a step: valid graphs, right devices, the communication that the strategy says."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import tensorflow as tf

from autodist.errors import GraphError
from autodist.graph import NodeList, ancestors, node_of
from autodist.kernels import Kernel, Layout, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing

from .steps import captured, ops, rewritten

COLLECTIVE = AllReduce(communicator="collective")
LAYOUTS = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)]


@pytest.mark.parametrize(("workers", "replicas"), LAYOUTS)
@pytest.mark.parametrize("builder", [PSLoadBalancing(communicator="tcp"), COLLECTIVE], ids=str)
def test_every_workers_graph_is_one_that_tensorflow_takes(builder, workers, replicas):
    for graph in rewritten(captured(), builder, workers, replicas):
        with tf.Graph().as_default():
            tf.graph_util.import_graph_def(graph.graph_def, name="")
        assert all(node.device for node in graph.graph_def.node)
        assert not [n for n in ops(graph, "Placeholder") if "resource" in n.lower()]


def test_a_single_replica_runs_the_step_as_it_is():
    source = captured()
    (graph,) = rewritten(source, COLLECTIVE, 1, 1)
    assert graph.points == ()
    assert len(graph.graph_def.node) <= len(source.graph_def.node)


def test_each_replica_computes_the_loss_and_the_worker_updates_once():
    (graph,) = rewritten(captured(), COLLECTIVE, 1, 3)
    assert len(ops(graph, "Mean")) == 3
    assert len(ops(graph, "AssignSubVariableOp")) == 3  # three dense variables
    assert len(ops(graph, "ResourceScatterSub")) == 1
    assert len(ops(graph, "AssignAddVariableOp")) == 1
    devices = {graph.nodes[name].device for name in ops(graph, "Mean")}
    assert len(devices) == 3


@pytest.mark.parametrize(("chunk_size", "buffers"), [(1, 3), (2, 2), (3, 1), (128, 1)])
def test_gradients_travel_in_as_many_buffers_as_there_are_groups(chunk_size, buffers):
    builder = AllReduce(chunk_size=chunk_size, communicator="collective")
    for graph in rewritten(captured(sparse=False), builder, 2, 1):
        reductions = [n for n in ops(graph, "CollectiveReduceV2") if "/group_" in n]
        assert len(reductions) == buffers


def test_all_workers_reduce_under_the_same_keys():
    def keys(graph):
        names = ops(graph, "CollectiveReduceV2")
        constants = [graph.nodes[node_of(graph.nodes[name].input[3])] for name in names]
        return {name: tf.make_ndarray(c.attr["value"].tensor).item() for name, c in zip(names, constants, strict=True)}

    first, second = rewritten(captured(), COLLECTIVE, 2, 2)
    assert keys(first) == keys(second)
    assert len(set(keys(first).values())) == len(keys(first))


def test_a_table_is_gathered_and_never_reduced():
    for graph in rewritten(captured(num_dense=1), COLLECTIVE, 2, 1):
        gathered = [n for n in ops(graph, "CollectiveGatherV2") if "indices" in n or "values" in n]
        assert gathered
        reduced = [node_of(graph.nodes[n].input[0]) for n in ops(graph, "CollectiveReduceV2")]
        assert not [n for n in reduced if "values" in n and "longest" not in n and "count" not in n]


def test_only_the_destinations_worker_updates_a_variable():
    graphs = rewritten(captured(), PSLoadBalancing(communicator="tcp"), 3, 1)
    writes = [set(ops(g, "AssignSubVariableOp") + ops(g, "ResourceScatterSub")) for g in graphs]
    assert sum(map(len, writes)) == 4
    assert not (writes[0] & writes[1] | writes[0] & writes[2] | writes[1] & writes[2])
    assert all(len(ops(g, "AssignAddVariableOp")) == 1 for g in graphs)  # the counter is every worker's own


@pytest.mark.parametrize(("options", "waits"), [({"sync": False}, False), ({"staleness": 2}, True), ({}, True)])
def test_only_asynchronous_steps_need_no_other_worker(options, waits):
    builder = PSLoadBalancing(**options)
    assert {graph.waits for graph in rewritten(captured(), builder, 2, 2)} == {waits}


def test_homes_are_the_same_on_all_workers():
    graphs = rewritten(captured(), PSLoadBalancing(communicator="tcp"), 3, 1)
    trained = ["w0", "w1", "w2", "table"]
    homes = {tuple(g.layout.rank_of_tf(g.placement[name]) for name in trained) for g in graphs}
    assert len(homes) == 1
    assert len(set(*homes)) > 1  # more than one server


def test_rows_of_a_table_are_looked_up_where_it_lives():
    for graph in rewritten(captured(), PSLoadBalancing(communicator="tcp"), 2, 1):
        for name in ops(graph, "ResourceGather"):
            assert graph.nodes[name].device == graph.placement["table"]


def test_no_update_starts_before_all_gradients_have_arrived():
    for rank, graph in enumerate(rewritten(captured(), PSLoadBalancing(communicator="tcp"), 3, 1)):
        for name in ops(graph, "AssignSubVariableOp") + ops(graph, "ResourceScatterSub"):
            before = ancestors(graph.nodes, [name])
            senders = {
                n.rsplit("_", 1)[1] for n in before if graph.nodes[n].op == "AutodistReceive" and "take_from" in n
            }
            assert senders == {str(other) for other in range(3) if other != rank}


def test_shapes_of_the_observer_are_all_kernels_in_order():
    seen = []
    rewritten(captured(), COLLECTIVE, 2, 1, observer=lambda name, graph: seen.append((name, len(graph.nodes))))
    names = [name for name, _ in seen[: len(seen) // 2]]
    servers = [
        "local-aggregation",
        "encode",
        "asynchronous-servers",
        "stream-values",
        "parameter-servers",
        "local-proxies",
    ]
    state = ["all-reduce", "broadcast-factors", "all-reduce-state"]
    parts = ["served-parts", "own-parts"]
    assert names == [
        "settle",
        "replicate",
        "delayed-gradients",
        *parts,
        *servers,
        *state,
        "place",
        "requests",
        "prune",
        "compiled",
    ]


@dataclass(frozen=True)
class _Broken(Kernel):
    name: ClassVar[str] = "broken"
    how: str = "missing input"

    def apply(self, graph):
        graph_def = tf.compat.v1.GraphDef()
        graph_def.CopyFrom(graph.graph_def)
        if self.how == "missing input":
            graph_def.node.add(name="new", op="Identity", input=["nowhere"])
        if self.how == "double":
            graph_def.node.add().CopyFrom(graph_def.node[0])
        if self.how == "lost effect":
            return graph.replace(effects=(*graph.effects, "gone"))
        return graph.replace(graph_def=graph_def)


@pytest.mark.parametrize("how", ["missing input", "double", "lost effect"])
def test_the_pipeline_refuses_what_a_broken_kernel_made(how):
    graph = captured()
    spec = ResourceSpec.local()
    layout = Layout.of(COLLECTIVE.build(graph, spec), spec, 0, server=False)
    with pytest.raises(GraphError, match="broken"):
        rewrite(graph, layout, [_Broken(how)])


def test_nodes_made_by_hand_compute():
    nodes = NodeList(device="/device:CPU:0")
    a = nodes.constant("a", [[1.0, 2.0], [3.0, 4.0]], "float32")
    doubled = nodes.sum("doubled", [a, a], "float32")
    stacked = nodes.concat("stacked", [a, doubled], "float32", dim=1)
    flat = nodes.reshape("flat", stacked, [-1], "float32")
    nodes.cast("whole", flat, "float32", "int64")
    graph_def = tf.compat.v1.GraphDef(node=nodes.nodes)
    with tf.Graph().as_default() as graph, tf.compat.v1.Session(graph=graph) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        assert session.run("whole:0").tolist() == [1, 2, 2, 4, 3, 4, 6, 8]
