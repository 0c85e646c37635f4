"""One rewriting for batches of all lengths: numbers of it that are computed from lengths."""

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import NodeList
from autodist.kernels import Length
from autodist.kernels._length_numbers import LengthNumbers

SIZES, OTHERS = (60, 73, 2), (120, 241, 3)


def computed(values, length, other, dtype="int32"):
    """What a constant with these values, one for each rewriting, becomes for arguments of two lengths."""
    nodes = NodeList()
    nodes.add("Placeholder", "replica_0/x", dtype="float32", shape=[None, None])
    nodes.add("Placeholder", "y", dtype="float32", shape=[None])
    for value in values:
        nodes.constant("sizes", value, dtype)
    constants = nodes.nodes[2:]
    known = {node.name: node for node in nodes.nodes[:3]}
    numbers = LengthNumbers([Length(SIZES, (("x", 1),)), Length(OTHERS, (("z", 0), ("y", 0)))], known)
    if not numbers.replace(constants):
        return None
    graph_def = tf.compat.v1.GraphDef(node=[*known.values(), *numbers.added.nodes])
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            feeds = {"replica_0/x:0": np.zeros([4, length]), "y:0": np.zeros([other])}
            return session.run("sizes:0", feeds).tolist()


@pytest.mark.parametrize(("values", "found"), [
    ([[0, 60, 8], [0, 73, 8], [0, 2, 8]], [0, 7, 8]),
    ([[0, 59], [0, 72], [0, 1]], [0, 6]),
    ([60 * 8 + 1, 73 * 8 + 1, 2 * 8 + 1], 57),
    ([60 * 60, 73 * 73, 4], 49),
    ([[60, 120], [73, 241], [2, 3]], [7, 9]),
    ([60 * 120 * 2, 73 * 241 * 2, 12], 126),
    ([[[60, 0], [0, 1]], [[73, 0], [0, 1]], [[2, 0], [0, 1]]], [[7, 0], [0, 1]]),
])  # fmt: skip
def test_numbers_are_computed_from_lengths(values, found):
    assert computed(values, 7, 9) == found
    assert computed(values, 7, 9, "int64") == found
    assert computed(values, 7, 9, "float64") == found


@pytest.mark.parametrize("values", [
    [60, 74, 2],  # the next even number
    [30, 36, 1],
    [60, 75, 3],
    [60, 64, 2],
    [[60, 0], [73, 0], [2, 0, 0]],
    [[60, 1], [73, 2], [2, 9]],
    [60 * 2**26, 73 * 2**26, 2**27],  # more than a 32-bit integer holds
])  # fmt: skip
def test_what_is_no_sum_of_lengths_is_left(values):
    assert computed(values, 7, 9, "int64") is None


def test_two_rewritings_tell_multiples_only():
    assert computed([480, 584], 7, 9) == 56
    assert computed([481, 585], 7, 9) is None


def test_parts_of_numbers_are_left():
    assert computed([0.5 * 60, 36.5, 1.0], 7, 9, "float64") is None


def test_no_rows_have_any_length():
    assert computed([np.zeros([0, 60]), np.zeros([0, 73]), np.zeros([0, 2])], 7, 9, "float32") == []
