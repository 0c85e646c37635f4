"""What workers ask each other for where neither streams nor TensorFlow's servers bring it."""

import re

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import QuestionSet
from autodist.strategies import PartitionedPS, PSLoadBalancing

from .steps import captured, ops, rewritten
from .test_streams import late

STREAMS = PSLoadBalancing(communicator="tcp")
BUILDERS = {
    "late": STREAMS,
    "loop": STREAMS,
    "branch": PartitionedPS(min_shard_bytes=0, communicator="tcp"),
    "stale": PSLoadBalancing(staleness=2, communicator="tcp"),
    "asynchronous": PartitionedPS(sync=False, min_shard_bytes=0, communicator="tcp"),
    "proxies": PSLoadBalancing(sync=False, local_proxy=True, communicator="tcp"),
}


def looking_up(find):
    table = tf.Variable(tf.ones([6, 4]), name="table")

    def step(x):
        ids = tf.cast(x, tf.int32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(find(table, ids) ** 2)
        table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    return step


def in_loop(table, ids):
    start = tf.zeros([tf.shape(ids)[0], 4])
    return tf.while_loop(
        lambda k, total: k < 4,
        lambda k, total: (k + 1, total + tf.gather(table, ids[:, k])),
        (0, start),
    )[1]


def in_branch(table, ids):
    return tf.cond(ids[0, 0] > 2, lambda: tf.gather(table, ids[:, 0]), lambda: in_loop(table, ids))


def graph_of(kind):
    made = {"late": late, "loop": lambda: looking_up(in_loop), "branch": lambda: looking_up(in_branch)}
    if kind not in made:
        return captured(sparse=kind != "proxies")
    return capture(made[kind](), [tf.TensorSpec([None, 4])], VariableNames()).graph


@pytest.fixture(scope="module", params=BUILDERS)
def graphs(request):
    return rewritten(graph_of(request.param), BUILDERS[request.param], 2, 1)


def questions(graph):
    """What a worker asks, in its graph and in the graph's functions: by name, of whom, and how many tensors."""
    inside = [node for function in graph.graph_def.library.function for node in function.node_def]
    asking = [node for node in (*graph.graph_def.node, *inside) if node.op == "AutodistAsk"]
    return {
        node.attr["collective"].s.decode(): (
            node.attr["ranks"].list.i[0],
            len(node.attr["T"].list.type),
            len(node.attr["Tout"].list.type),
        )
        for node in asking
    }


def test_a_worker_has_nothing_on_devices_of_others(graphs):
    for rank, graph in enumerate(graphs):
        elsewhere = [node.name for node in graph.graph_def.node if re.search(rf"/task:[^{rank}]/", node.device)]
        assert not [name for name in elsewhere if "localhost" not in graph.nodes[name].device]


def test_all_that_is_asked_is_answered(graphs):
    assert any(graph.asks for graph in graphs)
    for rank, graph in enumerate(graphs):
        told = [QuestionSet.from_json(asked.to_json()) for asked in graph.asks]
        answered = {
            question.name: (asked.rank, question.tensors, question.answers)
            for asked in told
            for question in asked.questions
        }
        assert questions(graph) == answered
        assert all(f"/asked_by_{rank}/" in name for name in answered)


def test_answers_run_on_the_devices_of_who_answers_and_only_when_asked(graphs):
    for graph in graphs:
        for asked in graph.asks:
            with tf.Graph().as_default():
                tf.graph_util.import_graph_def(asked.graph_def, name="")  # it is whole
            nodes = {node.name: node for node in asked.graph_def.node}
            assert all(node.device.startswith("/job:localhost/replica:0/task:0/") for node in nodes.values())
            for name, node in nodes.items():
                if node.op not in ("Const", "VarHandleOp", "FIFOQueueV2", "AutodistReceive"):
                    assert reaches(nodes, name, "AutodistReceive"), name
            assert {question.node for question in asked.questions} == {
                name for name, node in nodes.items() if node.op == "AutodistSend"
            }


def reaches(nodes, name, op):
    return nodes[name].op == op or any(reaches(nodes, t.lstrip("^").split(":")[0], op) for t in nodes[name].input)


def test_rows_are_checked_by_who_asks():
    for graph in rewritten(graph_of("loop"), STREAMS, 2, 1):
        inside = [node for function in graph.graph_def.library.function for node in function.node_def]
        assert all(node.attr["below"].i == 6 for node in inside if node.op == "AutodistAsk")


def test_an_update_waits_for_what_others_have_asked_for():
    owner, other = sorted(rewritten(graph_of("late"), STREAMS, 2, 1), key=lambda graph: len(graph.asks))
    [asking] = ops(other, "AutodistAsk")
    after = [name for name in ops(other, "AutodistSend") if f"^{asking}" in other.nodes[name].input]
    assert after  # the gradient, for which the owner's second update waits
    assert ops(owner, "AutodistAsk") == []


def test_several_values_are_asked_for_at_once():
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x * sum(parts)) ** 2)
        for part, gradient in zip(parts, tape.gradient(loss, parts), strict=True):
            part.assign_sub(gradient)
        return loss

    parts = [tf.Variable(tf.ones([4]), name=f"part_{k}") for k in range(6)]
    graph = capture(step, [tf.TensorSpec([None, 4])], VariableNames()).graph
    for own in rewritten(graph, PSLoadBalancing(staleness=1, communicator="tcp"), 2, 1):
        values = [q for asked in own.asks for q in asked.questions if q.answers == 3 and q.tensors == 1]
        assert len(values) == 2  # all values, all tokens
        assert len(questions(own)) == 2 + 3  # and each gradient
