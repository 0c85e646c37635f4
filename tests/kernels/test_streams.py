"""What servers get and give by streams: both ends in their own workers' graphs, values in the order of need."""

import pytest
import tensorflow as tf

from autodist.graph import node_of
from autodist.strategies import AllReduce, PartitionedPS, PSLoadBalancing

from .steps import captured, ops, rewritten
from .test_pack import layers

STREAMS = PSLoadBalancing(communicator="tcp")
LAYOUTS = [(2, 1), (2, 2), (3, 1)]


def traced(step):
    from autodist.graph import VariableNames, capture

    return capture(step, [tf.TensorSpec([None, 4])], VariableNames()).graph


def ends(graphs, kind):
    """By name of a message, the workers that have such an end of it, and which ranks it names."""
    found = {}
    for rank, graph in enumerate(graphs):
        for name in ops(graph, kind):
            attr = graph.nodes[name].attr
            found.setdefault(attr["collective"].s.decode(), []).append((rank, list(attr["ranks"].list.i)))
    return found


@pytest.mark.parametrize(("workers", "replicas"), LAYOUTS)
@pytest.mark.parametrize("builder", [STREAMS, PartitionedPS(min_shard_bytes=0, communicator="tcp")], ids=str)
def test_every_message_has_one_sender_and_a_receiver_for_each_rank_it_goes_to(builder, workers, replicas):
    for source in (captured(), captured(sparse=False), traced(layers(3, 2)), traced(layers(3, rounds=2))):
        graphs = rewritten(source, builder, workers, replicas)
        sent, received = ends(graphs, "AutodistSend"), ends(graphs, "AutodistReceive")
        assert sent.keys() == received.keys()
        assert sent
        for name, [(sender, targets)] in sent.items():
            assert sorted(rank for rank, _ in received[name]) == sorted(targets), name
            assert {tuple(ranks) for _, ranks in received[name]} == {(sender,)}, name
        reduced = ends(graphs, "AutodistAllReduce")
        assert all([rank for rank, _ in found] == list(range(workers)) for found in reduced.values())


@pytest.mark.parametrize(("workers", "replicas"), LAYOUTS)
def test_a_worker_of_a_dense_model_has_nothing_on_other_workers_devices(workers, replicas):
    for rank, graph in enumerate(rewritten(traced(layers(3, 2)), STREAMS, workers, replicas)):
        elsewhere = [n for n in graph.graph_def.node if f"/task:{rank}/" not in n.device and n.op != "VarHandleOp"]
        assert [(n.name, n.op) for n in elsewhere] == []


def test_lookups_stay_on_the_server():
    graphs = rewritten(captured(), STREAMS, 2, 1)
    for rank, graph in enumerate(graphs):
        lookups = [graph.nodes[name].device for name in (*ops(graph, "ResourceGather"), *ops(graph, "GatherV2"))]
        assert any(f"/task:{1 - rank}/" in device for device in lookups) or rank == server_of_the_table(graphs)


def server_of_the_table(graphs):
    """The worker whose own lookups are at home."""
    [device] = {graphs[0].nodes[name].device for name in ops(graphs[0], "ResourceGather")}
    return int(device.split("/task:")[1][0])


def test_values_that_are_needed_first_leave_first():
    graphs = rewritten(traced(layers(5, 4, 3, 2)), PSLoadBalancing(communicator="tcp"), 2, 1)
    order = {}
    for graph in graphs:
        for name in ops(graph, "AutodistSend"):
            variable = graph.nodes[name].attr["collective"].s.decode().partition("/value")
            if variable[1]:
                order[variable[0].rpartition("/")[2]] = graph.nodes[name].attr["priority"].i
    weights = [order[f"w{k}"] for k in range(4)]
    assert weights == sorted(weights)
    assert len(set(weights)) == 4
    assert order["w0"] < order["b0"] < order["w1"]


@pytest.mark.parametrize(("rounds", "joint"), [(1, True), (2, False)])
def test_the_news_of_updates_goes_once_where_nothing_waits_for_them(rounds, joint):
    graphs = rewritten(traced(layers(3, 2, rounds=rounds)), STREAMS, 2, 1)
    tokens = [name for name in ends(graphs, "AutodistSend") if "token_" in name]
    assert all("/of_" in name for name in tokens) == joint
    assert len(tokens) == 2 if joint else len(tokens) > 2


def test_an_update_waits_for_the_read_of_what_is_sent():
    for graph in rewritten(traced(layers(3)), STREAMS, 2, 1):
        for name in ops(graph, "AutodistSend"):
            read = node_of(graph.nodes[name].input[0])
            if read.endswith("/read"):
                handle = node_of(graph.nodes[read].input[0])
                writes = [
                    n for n in graph.graph_def.node if n.op.startswith("Assign") and node_of(n.input[0]) == handle
                ]
                assert writes
                assert all(f"^{read}" in write.input for write in writes)


def test_gradients_of_others_are_waited_for_when_there_are_own_ones():
    """TensorFlow can't interrupt a receipt, so a step that fails before would not end."""
    for graph in rewritten(traced(layers(3)), STREAMS, 2, 1):
        taken = [n for n in ops(graph, "AutodistReceive") if "take_from" in n]
        assert all(any(t.startswith("^") for t in graph.nodes[name].input) for name in taken)


def test_small_gradients_are_reduced_each_for_itself():
    for graph in rewritten(traced(layers(3, 2)), AllReduce(communicator="tcp"), 2, 1):
        names = [name for name in ops(graph, "AutodistAllReduce") if "/group_" in name]
        assert len(names) == 4
        assert not ops(graph, "ConcatV2")
