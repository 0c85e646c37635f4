"""What servers get and give by streams: both ends in their own workers' graphs, values in the order of need."""

import itertools
import re

import pytest
import tensorflow as tf

from autodist.graph import ancestors, node_of
from autodist.strategies import AllReduce, PartitionedPS, PSLoadBalancing

from .steps import captured, layers, ops, rewritten

STREAMS = PSLoadBalancing(communicator="tcp")
BUILDERS = [
    STREAMS,
    PartitionedPS(min_shard_bytes=0, communicator="tcp"),
    PSLoadBalancing(local_proxy=True, communicator="tcp"),
]
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
@pytest.mark.parametrize("builder", BUILDERS, ids=str)
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
@pytest.mark.parametrize("builder", BUILDERS[:2], ids=str)
def test_a_worker_has_nothing_on_other_workers_devices(builder, workers, replicas):
    for source in (captured(), captured(sparse=False), traced(layers(3, 2))):
        for graph in rewritten(source, builder, workers, replicas):
            own = "/job:localhost/replica:0/task:0/"  # each worker has a session of its own
            elsewhere = [n for n in graph.graph_def.node if not n.device.startswith(own)]
            assert [(n.name, n.op) for n in elsewhere] == []


def test_what_is_received_has_the_shape_that_the_servers_own_worker_knows():
    """TensorFlow fuses kernels, which round once, where it knows shapes: all workers have to fuse the same."""
    for source in (captured(), traced(layers(3, 2))):
        variables = {v.name: v.shape for v in source.variables}
        for graph in rewritten(source, STREAMS, 2, 1):
            shaped = {name for ensured in ops(graph, "EnsureShape") for name in graph.nodes[ensured].input}
            for name in ops(graph, "AutodistReceive"):
                message = graph.nodes[name].attr["collective"].s.decode()
                if message.endswith("/value") or "/rows_of_" in message:
                    assert name in shaped, message
            with tf.Graph().as_default() as imported:
                tf.graph_util.import_graph_def(graph.graph_def, name="")
                for name in ops(graph, "EnsureShape"):
                    message = graph.nodes[graph.nodes[name].input[0]].attr["collective"].s.decode()
                    shape = imported.get_operation_by_name(name).outputs[0].shape
                    of = message.split("/", 1)[1].rpartition("/")[0]
                    assert shape.rank is not None
                    assert of not in variables or tuple(shape) == variables[of]


def test_a_table_is_looked_up_in_by_its_worker_for_each_other_one():
    graphs = rewritten(captured(), STREAMS, 3, 2)
    lookups = [ops(graph, "ResourceGather") for graph in graphs]
    [owner] = {rank for rank, found in enumerate(lookups) if found}
    assert len(lookups[owner]) == 3 * 2  # of three workers with two replicas each
    asked = {name: to for graph in graphs for name, to in sends(graph) if "/ids_of_" in name}
    answered = {name: to for graph in graphs for name, to in sends(graph) if "/rows_of_" in name}
    assert list(asked.values()) == [[owner]] * 4
    others = [rank for rank in range(3) if rank != owner]
    assert sorted(answered.values()) == sorted([rank] for rank in others for _ in range(2))


def sends(graph):
    """What a worker sends, and to whom."""
    attrs = [graph.nodes[name].attr for name in ops(graph, "AutodistSend")]
    return [(attr["collective"].s.decode(), list(attr["ranks"].list.i)) for attr in attrs]


def test_an_update_waits_for_others_lookups():
    graphs = rewritten(captured(), STREAMS, 2, 1)
    [graph] = [graph for graph in graphs if ops(graph, "ResourceGather")]
    others = [name for name in ops(graph, "ResourceGather") if name.startswith("autodist/rows/")]
    handle = node_of(graph.nodes[others[0]].input[0])
    writes = [n for n in graph.graph_def.node if handle in n.input and n.op not in {"ResourceGather", "ReadVariableOp"}]
    assert writes
    assert all(f"^{other}" in write.input for other in others for write in writes)


def test_nobody_answers_row_numbers_before_having_own_ones():
    """TensorFlow can't interrupt a receipt, so a step that fails before would not end."""
    for graph in rewritten(captured(), STREAMS, 2, 1):
        taken = [graph.nodes[name] for name in ops(graph, "AutodistReceive") if name.startswith("autodist/rows/")]
        assert all(any(t.startswith("^") for t in node.input) for node in taken)


@pytest.mark.parametrize("builder", [*BUILDERS, AllReduce(communicator="tcp")], ids=str)
def test_nothing_waits_for_what_is_fed(builder):
    """TensorFlow would compute what a replica borrows that has no rows, which is fed only then."""
    weight = tf.Variable(tf.ones([4]))

    def waiting(x):
        with tf.control_dependencies([x]), tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * weight)
        weight.assign_sub(tape.gradient(loss, weight))
        return loss

    for source in (captured(), traced(waiting)):
        for graph in rewritten(source, builder, 2, 2):
            fed = {node_of(name) for feeds in graph.feeds for name in feeds if name is not None}
            assert fed
            waiting_for = {tensor[1:] for node in graph.graph_def.node for tensor in node.input if tensor[0] == "^"}
            assert fed.isdisjoint(waiting_for)


def test_numbers_of_rows_that_there_are_not_fail_the_step_that_has_them():
    asks = [g.nodes[n] for g in rewritten(captured(), STREAMS, 2, 1) for n in ops(g, "AutodistSend") if "/ask" in n]
    assert [node.attr["below"].i for node in asks] == [9]  # the table's rows


def test_a_gradient_is_waited_for_when_its_worker_has_what_it_comes_from():
    graphs = rewritten(captured(), STREAMS, 2, 1)
    [graph] = [graph for graph in graphs if ops(graph, "ResourceGather")]
    [answer] = [name for name in ops(graph, "AutodistSend") if "/answer_" in name]
    taken = [graph.nodes[name] for name in ops(graph, "AutodistReceive") if "take_from" in name]
    assert taken
    assert all(f"^{answer}" in node.input for node in taken)


def test_copies_that_are_read_after_an_update_are_set_before():
    """As moving averages of weights are made: a read waits for the value that the server sends after its update."""
    graphs = rewritten(traced(averaging()), BUILDERS[2], 2, 1)
    assert not [name for graph in graphs for name in ops(graph, "AutodistAsk")]
    [other] = [graph for graph in graphs if not any(name.endswith("/copy") for name, _ in sends(graph))]
    [copied] = [
        name
        for name in ops(other, "AssignVariableOp")
        if other.nodes[node_of(other.nodes[name].input[1])].op == "AutodistReceive"
    ]
    handle = other.nodes[copied].input[0]
    reads = {name for name in ops(other, "ReadVariableOp") if other.nodes[name].input[0] == handle}
    late = {name for name in reads if copied in ancestors(other.nodes, [name])}
    early = reads & ancestors(other.nodes, [copied])
    assert late
    assert early
    assert reads == late | early


def averaging():
    """Goes on with what it has updated."""
    weight, average = tf.Variable(tf.ones([4]), name="weight"), tf.Variable(tf.ones([4]), name="average")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.linalg.matvec(x, weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        average.assign(0.9 * average + 0.1 * weight)
        return loss

    return step


@pytest.mark.parametrize("step", ["late", "chained"])
def test_lookups_by_what_was_looked_up_go_by_streams_and_those_after_an_update_do_not(step):
    graphs = rewritten(traced(TABLES[step]()), STREAMS, 2, 1)
    asked = {name for graph in graphs for name, _ in sends(graph) if "/ids_of_" in name}
    assert len(asked) == {"late": 1, "chained": 2}[step]


def late():
    """Looks up, updates, and looks up again."""
    table = tf.Variable(tf.zeros([5, 4]), name="table")

    def step(x):
        ids = tf.cast(x[:, 0], tf.int32)
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.gather(table, ids) ** 2)
            table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    return step


def chained():
    """Looks up by what it has looked up."""
    successors = tf.Variable([[1.0], [2.0], [0.0]], name="successors")
    table = tf.Variable(tf.zeros([3, 4]), name="table")

    def step(x):
        with tf.GradientTape() as tape:
            scores = tf.gather(successors, tf.cast(x[:, 0], tf.int32))
            rows = tf.gather(table, tf.cast(scores[:, 0], tf.int32))
            loss = tf.reduce_mean(tf.reduce_sum(rows * scores, 1))
        for variable, gradient in zip((successors, table), tape.gradient(loss, (successors, table)), strict=True):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    return step


TABLES = {"late": late, "chained": chained}


@pytest.mark.parametrize("builder", BUILDERS, ids=str)
@pytest.mark.parametrize("is_cast", [False, True])
def test_values_that_are_needed_first_leave_first(builder, is_cast):
    order = {}
    for graph in rewritten(traced(halved(3, 2) if is_cast else layers(5, 4, 3, 2)), builder, 2, 1):
        for name in ops(graph, "AutodistSend"):
            attr = graph.nodes[name].attr
            sent = re.fullmatch(r".*/([wb][0-9])(/.*)?/(value|copy)", attr["collective"].s.decode())
            if sent:
                order.setdefault(sent[1], set()).add(attr["priority"].i)
    assert all(len(priorities) == 1 for priorities in order.values()), "parts are needed together"
    weights = [order[name] for name in sorted(order) if name.startswith("w")]
    assert len(weights) == (2 if is_cast else 4)
    assert sorted(map(min, weights)) == list(map(min, weights))
    assert len(set(map(min, weights))) == len(weights)
    assert is_cast or min(order["w0"]) < min(order["b0"]) < min(order["w1"])


def test_values_that_the_computation_waits_for_leave_before_gradients():
    """Else a worker that computes already holds up the values of those that still wait."""
    for graph in rewritten(traced(layers(5, 4, 3, 2)), STREAMS, 2, 1):
        priorities: dict[bool, list[int]] = {True: [], False: []}
        for name in ops(graph, "AutodistSend"):
            attr = graph.nodes[name].attr
            priorities[attr["collective"].s.decode().endswith("/value")].append(attr["priority"].i)
        assert max(priorities[True]) < min(priorities[False])


def test_rows_that_are_needed_first_leave_first():
    order = {}
    for graph in rewritten(traced(sampled()), STREAMS, 2, 1):
        for name in ops(graph, "AutodistSend"):
            attr = graph.nodes[name].attr
            sent = re.search(r"(classes|words|middle)(_1)?/(rows_of_|value)", attr["collective"].s.decode())
            if sent:
                order[sent[1]] = attr["priority"].i
    assert order["words"] < order["middle"] < order["classes"]


def sampled():
    """Looks up all at once; the rows of classes meet what is computed from those of words."""
    classes, words = (tf.Variable(tf.ones([5, 4]), name=name) for name in ("classes", "words"))
    middle = tf.Variable(tf.ones([4, 4]), name="middle")
    variables = (classes, words, middle)

    def step(x):
        ids = tf.cast(x[:, 0], tf.int32)
        with tf.GradientTape() as tape:
            hidden = tf.tanh(tf.tanh(tf.gather(words, ids, name="words")) @ middle)
            loss = tf.reduce_mean(tf.reduce_sum(hidden * tf.gather(classes, ids, name="classes"), 1))
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    return step


def halved(*widths):
    """Layers whose weights are cast before they meet the batch, as with mixed precision."""
    weights = [tf.Variable(tf.ones([a, b]), name=f"w{k}") for k, (a, b) in enumerate(itertools.pairwise((4, *widths)))]

    def step(x):
        with tf.GradientTape() as tape:
            value = tf.cast(x, tf.float16)
            for weight in weights:
                value = tf.tanh(value @ tf.cast(weight, tf.float16))
            loss = tf.reduce_mean(tf.square(tf.cast(value, tf.float32)))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return loss

    return step


def test_a_copy_is_set_to_what_comes_after_the_update_when_it_has_been_read():
    graphs = rewritten(traced(layers(3)), BUILDERS[2], 3, 1)
    sent = {name for graph in graphs for name, _ in sends(graph) if name.endswith("/copy")}
    assert len(sent) == 2  # a kernel and a bias
    for graph in graphs:
        for name in ops(graph, "AssignVariableOp"):
            node = graph.nodes[name]
            if graph.nodes[node_of(node.input[1])].op == "AutodistReceive":
                handle = graph.nodes[node.input[0]]
                assert handle.attr["shared_name"].s.endswith(b"/proxy")
                reads = [n.name for n in graph.graph_def.node if n.op == "ReadVariableOp" and n.input[0] == handle.name]
                assert reads
                assert {f"^{read}" for read in reads} <= set(node.input)
        for name in ops(graph, "AutodistSend"):
            value = graph.nodes[node_of(graph.nodes[name].input[0])]
            if graph.nodes[name].attr["collective"].s.endswith(b"/copy"):
                assert any(t.startswith("^") for t in value.input)  # the update


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


@pytest.mark.parametrize(
    ("widths", "buffers"),
    [((3, 2), 1), ((400, 2), 2), ((1000, 1, 1000, 1, 1000, 1), 3)],
    ids=["all", "beside a large one", "more than fit"],
)
def test_small_gradients_are_reduced_in_company_and_large_ones_alone(widths, buffers):
    """Of 4,000 bytes, and less, four fit; 16,000 are large."""
    for graph in rewritten(traced(layers(*widths)), AllReduce(communicator="tcp"), 2, 1):
        names = [name for name in ops(graph, "AutodistAllReduce") if "/group_" in name]
        assert len(names) == buffers
        assert ops(graph, "ConcatV2")
