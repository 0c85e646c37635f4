"""Sums of which each worker gets its rows, of as many rows as a batch has."""

import numpy as np
import tensorflow as tf

from autodist.carriers import CollectivePlace, Scattered, get
from autodist.graph import NodeList

FED = {"parts": "float32", "firsts": "int32", "counts": "int32"}


def import_rank(rank):
    """A worker's part, on a device of its own; returns its rows of the sum."""
    nodes, place = NodeList(device=f"/device:CPU:{rank}"), CollectivePlace(rank, 2, "step")
    parts, firsts, counts = (nodes.add("Placeholder", name, dtype=dtype) for name, dtype in FED.items())
    scattered = Scattered(parts, firsts, counts, 2)
    made = get("collective").communicator(place).reduce_scatter(nodes, "sum", scattered, parts, "float32", place)
    graph_def = tf.compat.v1.GraphDef(node=nodes.nodes)
    return tf.graph_util.import_graph_def(graph_def, return_elements=[f"{made}:0"], name=f"rank_{rank}")[0]


def test_collectives_of_tensorflow_sum_batches_of_other_lengths():
    with tf.Graph().as_default() as graph:
        rows = [import_rank(rank) for rank in range(2)]
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    limit = tf.compat.v1.RunOptions(timeout_in_ms=60_000)
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        for counts in ([3, 5], [5, 0], [4, 4]):
            parts = np.arange(2 * sum(counts), dtype=np.float32).reshape(-1, 2)
            values = {"firsts": [0, counts[0]], "counts": counts}
            given = [{**values, "parts": (1 + rank) * parts} for rank in range(2)]
            feed = {f"rank_{rank}/{name}:0": fed[name] for rank, fed in enumerate(given) for name in FED}
            found = session.run(rows, feed, options=limit)
            assert [len(own) for own in found] == counts
            np.testing.assert_array_equal(np.concatenate(found), 3 * parts)


def test_collectives_of_tensorflow_gather_strings():
    given = [np.array(rows, object) for rows in ([b"", b"\x00\xff\x42"], [b"B" * 300])]
    nodes = []
    for rank, strings in enumerate(given):
        own, place = NodeList(device=f"/device:CPU:{rank}"), CollectivePlace(rank, 2, "step")
        tensor = own.add("PlaceholderWithDefault", "own", [own.constant("given", strings, "string")], dtype="string")
        own.nodes[-1].attr["shape"].shape.dim.add().size = -1
        get("collective").communicator(place).all_gather_rows(own, ["all"], [tensor], ["string"])
        nodes.append(own.nodes)
    with tf.Graph().as_default() as graph:
        found = [
            tf.graph_util.import_graph_def(
                tf.compat.v1.GraphDef(node=own), return_elements=["all:0"], name=f"rank_{rank}"
            )[0]
            for rank, own in enumerate(nodes)
        ]
    config = tf.compat.v1.ConfigProto(device_count={"CPU": 2})
    limit = tf.compat.v1.RunOptions(timeout_in_ms=60_000)
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        for a, b in (given, given[::-1], (given[0][:0], given[1]), (given[0][:0], given[1][:0])):
            for strings in session.run(found, {"rank_0/own:0": a, "rank_1/own:0": b}, options=limit):
                np.testing.assert_array_equal(strings, np.concatenate([a, b]))
