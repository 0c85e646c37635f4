"""The editor of graphs: each edit does what it says, and the index of readers is always that of the graph."""

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import GraphError
from autodist.graph import GraphEditor, data_inputs, node_of


def chain():
    """`a` is read by `b` and by `c`, for which `d` waits."""
    graph_def = tf.compat.v1.GraphDef()
    for name, op, inputs in (
        ("a", "Const", []),
        ("b", "Identity", ["a"]),
        ("c", "AddV2", ["a:0", "b"]),
        ("d", "Neg", ["b", "^c"]),
    ):
        graph_def.node.add(name=name, op=op, input=inputs, device="/device:CPU:0")
    return graph_def


@pytest.fixture
def editor():
    return GraphEditor(chain(), "/device:CPU:1")


def inputs_of(editor):
    return {node.name: list(node.input) for node in editor.finish().node}


def test_an_input_is_replaced_and_the_others_stay(editor):
    editor.replace_input("c", 1, "a")
    assert inputs_of(editor)["c"] == ["a:0", "a"]
    assert editor.readers("b") == ("d",)


def test_a_node_waits_once_and_behind_its_inputs(editor):
    editor.wait_for("d", ["a", "c", "a"])
    editor.wait_for("b", [])
    assert inputs_of(editor)["d"] == ["b", "^c", "^a"]
    assert editor.readers("a") == ("b", "c", "d")


def test_readers_of_a_tensor_take_another_one(editor):
    editor.redirect({"a": "elsewhere", "^c": "^elsewhere"}, lambda node, position: node.name == "b")
    editor.add("Const", "elsewhere")
    assert inputs_of(editor) == {
        "a": [],
        "b": ["a"],
        "c": ["elsewhere", "b"],
        "d": ["b", "^elsewhere"],
        "elsewhere": [],
    }


def test_what_was_added_keeps_what_it_was_made_to_read_unless_it_is_asked_to_follow(editor):
    editor.add("Identity", "copy", ["a"])
    editor.redirect({"a": "copy"})
    assert inputs_of(editor)["copy"] == ["a"]
    editor.add("Identity", "other", ["b"])
    editor.redirect({"b": "c"}, with_added=True)
    assert inputs_of(editor)["other"] == ["c"]


def test_nobody_waits_any_more(editor):
    editor.wait_for("b", ["a"])
    editor.stop_waiting(["c", "a"])
    assert inputs_of(editor) == {"a": [], "b": ["a"], "c": ["a:0", "b"], "d": ["b"]}


def test_a_clone_is_on_the_editors_device_and_has_neither_place_nor_shapes_of_the_original(editor):
    editor["b"].attr["_class"].list.s.append(b"loc:@a")
    editor["b"].attr["T"].type = tf.float32.as_datatype_enum
    assert editor.clone(editor["b"], "copy", ["c"]) == "copy"
    made = editor["copy"]
    assert (made.op, list(made.input), made.device) == ("Identity", ["c"], "/device:CPU:1")
    assert set(made.attr) == {"T"}
    assert set(editor["b"].attr) == {"T", "_class"}


def test_pruning_keeps_what_is_needed_and_what_comes_afterwards_is_known(editor):
    editor.add("Neg", "minus", ["b"], T="float32")
    editor.add("Neg", "unused", ["c"], T="float32")
    editor.prune(["minus"])
    editor.add("Neg", "plus", ["minus"], T="float32")
    assert [node.name for node in editor.finish().node] == ["a", "b", "minus", "plus"]
    assert [node.name for node in editor.nodes] == ["minus", "plus"]
    assert editor.readers("b") == ("minus",)
    assert "c" not in editor


def test_a_removed_node_may_come_again(editor):
    editor.remove({"b"})
    editor.add("Const", "b")
    assert inputs_of(editor)["c"] == ["a:0", "b"]


def test_what_is_wrong_is_listed(editor):
    editor.add("Const", "a")
    editor.remove({"b"})
    editor.wait_for("d", ["nowhere"])
    with pytest.raises(GraphError) as raised:
        editor.finish()
    for part in ("two nodes `a`", "`c` has the missing input `b`", "`d` has the missing input `^nowhere`"):
        assert part in str(raised.value)


NAMES = [f"n{k}" for k in range(6)]


def tensors(waits):
    """Random inputs of nodes, control inputs among them or not."""
    return st.builds(
        lambda waits, name, output: f"^{name}" if waits else name + output,
        waits,
        st.sampled_from(NAMES),
        st.sampled_from(["", ":1"]),
    )


def edits():
    """An edit: its name, and what it is given."""
    names = st.sampled_from(NAMES)
    some = st.lists(names, max_size=3)
    inputs = st.lists(tensors(st.booleans()), max_size=4)
    redirected = st.booleans().flatmap(
        lambda waits: st.dictionaries(tensors(st.just(waits)), tensors(st.just(waits)), max_size=3)
    )
    return st.one_of(
        st.tuples(st.just("set_inputs"), names, inputs),
        st.tuples(st.just("wait_for"), names, some),
        st.tuples(st.just("redirect"), redirected),
        st.tuples(st.just("stop_waiting"), some),
        st.tuples(st.just("add"), names, inputs),
        st.tuples(st.just("remove"), some),
        st.tuples(st.just("prune"), some),
    )


@given(st.lists(edits(), max_size=12))
def test_the_index_is_that_of_the_graph_after_any_edits(chosen):
    editor = GraphEditor(tf.compat.v1.GraphDef())
    for name in NAMES:
        editor.add("NoOp", name)
    for edit, *given_ in chosen:
        if edit in ("set_inputs", "wait_for") and given_[0] not in editor:
            continue
        if edit == "add":
            if given_[0] not in editor:
                editor.add("NoOp", given_[0], sorted(given_[1], key=lambda tensor: tensor.startswith("^")))
        elif edit == "redirect":
            editor.redirect(*given_, with_added=True)
        elif edit == "prune":
            if is_complete(editor):
                editor.prune([name for name in given_[0] if name in editor])
        else:
            getattr(editor, edit)(*given_)
        assert_indexed(editor)


def is_complete(editor):
    """Whether the graph is valid; pruning needs that."""
    try:
        editor.finish()
    except GraphError:
        return False
    return True


def assert_indexed(editor):
    nodes = [editor[name] for name in NAMES if name in editor]
    readers = {}
    for node in nodes:
        for source in {node_of(tensor) for tensor in node.input}:
            readers.setdefault(source, set()).add(node.name)
        waits = [tensor.startswith("^") for tensor in node.input]
        assert waits == sorted(waits)
    assert {name: set(editor.readers(name)) for name in NAMES} == {name: readers.get(name, set()) for name in NAMES}
    assert list(editor.index.nodes) == [node.name for node in editor.index.nodes.values()]
    assert editor.index.needs == {node.name: tuple(map(node_of, node.input)) for node in nodes}
    assert editor.index.sources == {node.name: tuple(map(node_of, data_inputs(node))) for node in nodes}
    missing = {source for source in readers if source not in editor}
    assert is_complete(editor) == (not missing)
