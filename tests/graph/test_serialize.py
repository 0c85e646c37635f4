"""A graph comes back from its file as it was, and other files are refused with the reason."""

import contextlib
import json
import pickle
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autodist.errors import GraphError
from autodist.graph import Output, StepInput, TrainingGraph, without_directories
from tests.kernels.steps import captured
from tests.strategies.examples import graphs

_shapes = st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3).map(tuple)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    graphs(),
    st.lists(st.builds(StepInput, st.text(), st.booleans(), _shapes, st.just("int32")), max_size=2),
    st.lists(st.builds(Output, st.text(), _shapes, st.just("float32")), max_size=2),
    st.dictionaries(st.text(), st.text(), max_size=2),
    st.none() | st.integers(1, 99),
)
def test_all_comes_back(tmp_path, graph, inputs, outputs, lines, batch_size):
    graph = replace(
        graph, inputs=tuple(inputs), outputs=tuple(outputs), effects=("a",), lines=lines, batch_size=batch_size
    )
    graph.save(tmp_path / "g.zip")
    back = TrainingGraph.load(tmp_path / "g.zip")
    assert (back, back.lines, back.batch_size, back.uses) == (graph, lines, batch_size, graph.uses)
    assert (back.id, back.step_id) == (graph.id, graph.step_id)


@pytest.fixture(scope="module")
def real():
    return captured()


def test_a_captured_graph_comes_back(tmp_path, real):
    real.save(tmp_path / "g.zip")
    back = TrainingGraph.load(tmp_path / "g.zip")
    assert back.uses == real.uses
    assert pickle.loads(pickle.dumps(back)) == real
    assert back == real
    assert replace(back, effects=()).graph_def == real.graph_def
    assert [path.name for path in tmp_path.iterdir()] == ["g.zip"]


def test_the_graph_inside_is_a_graph_def(tmp_path, real):
    real.save(tmp_path / "g.zip")
    with zipfile.ZipFile(tmp_path / "g.zip") as archive:
        assert tf.compat.v1.GraphDef.FromString(archive.read("graph.pb")) == real.graph_def


def test_counting_bytes_takes_no_tensorflow(tmp_path, real):
    real.save(tmp_path / "g.zip")
    code = (
        "import sys; from autodist.graph import TrainingGraph; from autodist.resource_spec import ResourceSpec\n"
        "from autodist import strategies\n"
        f"g = TrainingGraph.load({str(tmp_path / 'g.zip')!r}); d = ResourceSpec.local(workers=2, cpus=1)\n"
        "s = strategies.PSLoadBalancing().build(g, d)\n"
        "assert strategies.traffic(s, g, d).sent\n"
        "print('tensorflow' in sys.modules, hasattr(g, 'nothing'), len(g.graph_def.node) > 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "False False True", done.stderr


def changed(path, **changes):
    """The file with another header."""
    with zipfile.ZipFile(path) as archive:
        header, content = json.loads(archive.read("header.json")), archive.read("graph.pb")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({**header, **changes}))
        archive.writestr("graph.pb", content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 3}, "of version 3, this AutoDist reads up to 2 .*upgrade"),
        ({"version": "x"}, "version is 'x'"),
        ({"format": "other"}, "is not a graph file"),
        ({"variables": [{"name": "w"}]}, "is not a graph file, or it is damaged"),
        ({"variables": 3}, "is not a graph file, or it is damaged"),
        ({"outputs": [{"nonsense": 1, "shape": None}]}, "is not a graph file, or it is damaged"),
    ],
)
def test_other_headers_are_refused(tmp_path, real, changes, message):
    real.save(tmp_path / "g.zip")
    changed(tmp_path / "g.zip", **changes)
    with pytest.raises(GraphError, match=f"(?s)g.zip.*{message}" if "version is" in message else message):
        TrainingGraph.load(tmp_path / "g.zip")


def test_files_that_are_no_graphs_are_refused(tmp_path):
    (tmp_path / "text").write_text("hello")
    (tmp_path / "empty").write_bytes(b"")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    for name, reason in [
        ("text", "is not a graph file"),
        ("empty", "is not a graph file"),
        ("other.zip", "is not a graph file"),
        ("missing", "can't be read: No such file"),
        ("", "can't be read: Is a directory"),
    ]:
        with pytest.raises(GraphError, match=reason):
            TrainingGraph.load(tmp_path / name)


def test_file_that_claims_to_be_huge_is_not_unpacked(tmp_path, real, monkeypatch):
    real.save(tmp_path / "g.zip")
    monkeypatch.setattr("autodist.graph._serialize._MOST_BYTES", 100)
    with pytest.raises(GraphError, match=r"its `header.json` has [\d,]+ bytes, 100 are allowed"):
        TrainingGraph.load(tmp_path / "g.zip")


def test_damage_is_seen(tmp_path, real):
    real.save(tmp_path / "g.zip")
    content = (tmp_path / "g.zip").read_bytes()
    refused = 0
    for place in range(0, len(content), max(1, len(content) // 200)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "damaged.zip").write_bytes(damaged)
        with contextlib.suppress(GraphError):
            refused += 1
            assert TrainingGraph.load(tmp_path / "damaged.zip") == real  # a time stamp, say
            refused -= 1
    assert refused > 150
    (tmp_path / "short.zip").write_bytes(content[: len(content) // 2])
    with pytest.raises(GraphError, match="damaged"):
        TrainingGraph.load(tmp_path / "short.zip")


def test_where_nothing_can_be_written_nothing_is_left(tmp_path, real):
    with pytest.raises(GraphError, match="can't be written: No such file"):
        real.save(tmp_path / "nowhere" / "g.zip")
    assert list(tmp_path.iterdir()) == []


def test_for_others_files_have_names_but_no_directories(tmp_path, real):
    told = replace(real, lines={"a": "/home/me/train.py:12", "b": "an unknown line"})
    told.save(tmp_path / "mine.zip")
    (tmp_path / "theirs.zip").write_bytes(without_directories((tmp_path / "mine.zip").read_bytes()))
    found = TrainingGraph.load(tmp_path / "theirs.zip")
    assert found.lines == {"a": "train.py:12", "b": "an unknown line"}
    assert (found, found.graph_def) == (told, told.graph_def)
    with pytest.raises(GraphError, match="not a graph file"):
        without_directories(b"PK nothing")
