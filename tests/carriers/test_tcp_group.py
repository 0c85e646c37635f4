"""Collectives of some of the workers: what is received under a name is what was sent under it, and nothing else is."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.carriers import CollectivePlace, Scattered, get
from autodist.graph import NodeList

MEMBERS = {2: (1, 4), 3: (0, 2, 5)}


def joined(members, values, dtype, collective):
    """What a collective gives each member: all nodes are in one graph, where who sends is linked with who receives."""
    nodes = NodeList()
    results = []
    for rank in members:
        own = NodeList()
        given = own.constant(f"given_{rank}", values[rank], dtype)
        place = CollectivePlace(rank, 6, "step", members)
        results.append(collective(get("tcp").communicator(place), own, f"joined_{rank}", given, place))
        nodes.nodes += [renamed(node, rank) for node in own.nodes]
    sent = {node.attr["collective"].s: node for node in nodes.nodes if node.op == "AutodistSend"}
    received = [node for node in nodes.nodes if node.op == "AutodistReceive"]
    assert sorted(sent) == sorted(node.attr["collective"].s for node in received)
    for node in received:
        sender = sent[node.attr["collective"].s]
        assert list(node.attr["ranks"].list.i) == [int(sender.name.rpartition("@")[2])]
        source, kind = sender.input[0], sender.attr["T"].list.type[0]
        waits = list(node.input)
        node.CopyFrom(tf.compat.v1.NodeDef(name=node.name, op="Identity", input=[source, *waits]))
        node.attr["T"].type = kind
    for node in sent.values():
        node.CopyFrom(tf.compat.v1.NodeDef(name=node.name, op="NoOp"))
    fetched = [f"{result}@{rank}" for result, rank in zip(results, members, strict=True)]
    with tf.Graph().as_default():
        found = tf.graph_util.import_graph_def(
            tf.compat.v1.GraphDef(node=[legal(node) for node in nodes.nodes]),
            return_elements=[f"{name.replace('@', '_of_')}:0" for name in fetched],
        )
        with tf.compat.v1.Session() as session:
            return session.run(found)


def renamed(node, rank):
    """A node in a graph of all members: names of collectives are the same for all of them, those of nodes can't be."""
    copy = type(node)()
    copy.CopyFrom(node)
    copy.name = f"{node.name}@{rank}"
    copy.input[:] = [with_rank(tensor, rank) for tensor in node.input]
    if "collective" in copy.attr:
        copy.attr["collective"].s = copy.attr["collective"].s.replace(b"joined_%d" % rank, b"joined")
    return copy


def with_rank(tensor, rank):
    name, colon, index = tensor.partition(":")
    return f"{name}@{rank}{colon}{index}"


def legal(node):
    node.name = node.name.replace("@", "_of_")
    node.input[:] = [tensor.replace("@", "_of_") for tensor in node.input]
    return node


@pytest.mark.parametrize("count", MEMBERS)
@pytest.mark.parametrize("shape", [(), (2,), (7, 3), (0, 2)])
def test_sums_of_members(count, shape):
    members = MEMBERS[count]
    values = {rank: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + rank for rank in members}
    found = joined(
        members, values, "float32", lambda carry, nodes, name, t, _: carry.all_reduce(nodes, name, t, "float32")
    )
    for total in found:
        np.testing.assert_array_equal(total, sum(values.values()))


@pytest.mark.parametrize("shape", [(), (7, 3)])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_sums_of_complex_numbers(dtype, shape):
    members = MEMBERS[2]
    values = {rank: np.full(shape, rank + 2j, dtype) for rank in members}
    found = joined(members, values, dtype, lambda carry, nodes, name, t, _: carry.all_reduce(nodes, name, t, dtype))
    for total in found:
        np.testing.assert_array_equal(total, sum(values.values()))


@pytest.mark.parametrize("count", MEMBERS)
def test_rows_of_members_in_their_order(count):
    members = MEMBERS[count]
    values = {rank: np.full((rank, 2), rank, np.int8) for rank in members}
    found = joined(members, values, "int8", lambda carry, nodes, name, t, _: carry.all_gather(nodes, name, t, "int8"))
    for rows in found:
        np.testing.assert_array_equal(rows, np.concatenate([values[rank] for rank in members]))


@pytest.mark.parametrize("count", MEMBERS)
def test_each_member_has_its_rows_of_a_sum(count):
    members = MEMBERS[count]
    counts = list(range(1, count + 1))
    firsts = [sum(counts[:k]) for k in range(count)]
    whole = np.arange(2 * sum(counts), dtype=np.float32).reshape(-1, 2)

    def scattered(carry, nodes, name, tensor, place):
        bounds = [nodes.constant(f"{what}_{place.rank}", of, "int32") for what, of in (("f", firsts), ("c", counts))]
        first, size = firsts[place.index], counts[place.index]
        own = nodes.constant(f"own_{place.rank}", (1 + place.rank) * whole[first : first + size], "float32")
        return carry.reduce_scatter(nodes, name, Scattered(tensor, *bounds, 2), own, "float32", place)

    found = joined(members, {rank: (1 + rank) * whole for rank in members}, "float32", scattered)
    assert [len(rows) for rows in found] == counts
    np.testing.assert_array_equal(np.concatenate(found), sum(1 + rank for rank in members) * whole)


STRINGS = {
    "of any bytes": [[b"", b"\x00\xff" * 3], [], [b"B" * 300, b"\x42", b"last"]],
    "none": [[], [], []],
    "of two dims": [[[b"a", b""], [b"bc", b"d" * 130]], np.empty((0, 2), object), [[b"", b"e"]]],
}


@pytest.mark.parametrize("name", STRINGS)
def test_strings_of_members_in_their_order(name):
    members, given = MEMBERS[3], [np.array(rows, object) for rows in STRINGS[name]]
    found = joined(
        members,
        dict(zip(members, given, strict=True)),
        "string",
        lambda carry, nodes, name, t, _: carry.all_gather(nodes, name, t, "string"),
    )
    for rows in found:
        np.testing.assert_array_equal(rows, np.concatenate(given))
