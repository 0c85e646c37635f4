"""Small tools for GraphDefs, and the properties that kernels rely on."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from autodist.graph import GraphEditor, ancestors, node_of, normalize, split_tensor
from autodist.graph._graph_def import topological_order


@st.composite
def graphs(draw):
    """Random acyclic graphs whose nodes stand in any order."""
    count = draw(st.integers(1, 12))
    graph_def = tf.compat.v1.GraphDef()
    nodes = []
    for k in range(count):
        inputs = draw(st.lists(st.integers(0, k - 1), max_size=3, unique=True)) if k else []
        control = draw(st.lists(st.booleans(), min_size=len(inputs), max_size=len(inputs)))
        data = [f"n{i}" for i, c in zip(inputs, control, strict=True) if not c]
        waits = [f"^n{i}" for i, c in zip(inputs, control, strict=True) if c]
        nodes.append((f"n{k}", data + waits))
    for name, inputs in draw(st.permutations(nodes)):
        graph_def.node.add(name=name, op="NoOp", input=inputs)
    return graph_def


@given(graphs())
def test_topological_order_puts_inputs_first(graph_def):
    nodes = {node.name: node for node in graph_def.node}
    order = topological_order(nodes)
    assert sorted(order) == sorted(nodes)
    position = {name: k for k, name in enumerate(order)}
    for node in graph_def.node:
        assert all(position[node_of(t)] < position[node.name] for t in node.input)


@given(graphs(), st.data())
def test_pruning_keeps_what_the_roots_need_and_nothing_else(graph_def, data):
    names = [node.name for node in graph_def.node]
    roots = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    editor = GraphEditor(graph_def)
    editor.prune(roots)
    kept = {node.name for node in editor.finish().node}
    assert kept == ancestors({node.name: node for node in graph_def.node}, roots)
    assert set(roots) <= kept


@pytest.mark.parametrize(
    ("tensor", "name", "index"), [("a", "a", 0), ("a:0", "a", 0), ("a/b:2", "a/b", 2), ("^a", "a", -1)]
)
def test_tensor_names_come_apart(tensor, name, index):
    assert split_tensor(tensor) == (name, index)
    assert node_of(tensor) == name


def test_the_canonical_spelling_leaves_out_output_zero():
    assert [normalize(t) for t in ("a:0", "a:1", "a", "^a")] == ["a", "a:1", "a", "^a"]
