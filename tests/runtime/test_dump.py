"""`--dump-graphs`: every kernel's graph is there, can be read by people and by tools, and mistakes come early."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from autodist.errors import UsageError
from autodist.launch import Job
from autodist.resource_spec import ResourceSpec
from autodist.runtime._dump import GraphDump
from autodist.strategies import PSLoadBalancing
from tests.kernels.steps import captured, rewritten

SPEC = ResourceSpec.local(workers=2, cpus=1)


class Watching:
    """Dumps, and remembers what it was given."""

    def __init__(self, dump):
        self.dump = dump
        self.seen = []

    def __call__(self, name, graph):
        self.seen.append((name, graph))
        self.dump(name, graph)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory):
    directory = tmp_path_factory.mktemp("dump")
    watching = Watching(GraphDump.of_step(directory, 0, "step"))
    rewritten(captured(), PSLoadBalancing(communicator="tcp"), 1, 2, observer=watching)
    return directory / "rank_0" / "step", watching.seen


def test_each_changed_graph_is_a_graph_def(dumped):
    directory, seen = dumped
    last = None
    for number, (name, graph) in enumerate(seen):
        path = directory / f"{number:02}-{name}.pb"
        assert path.exists() == (graph.graph_def is not last)
        if path.exists():
            assert tf.compat.v1.GraphDef.FromString(path.read_bytes()) == graph.graph_def
        last = graph.graph_def


def test_the_text_has_one_line_per_node_and_says_what_it_is_for(dumped):
    directory, seen = dumped
    name, graph = next((n, g) for n, g in seen if n == "replicate")
    (path,) = directory.glob(f"*-{name}.txt")
    lines = path.read_text().splitlines()
    comments = [line for line in lines if line.startswith("# ")]
    assert [line.split(" = ")[0] for line in lines if line not in comments] == [n.name for n in graph.graph_def.node]
    assert any(line.startswith("# gradient of w0: ") for line in comments)
    assert any(line.startswith("# state: ") for line in comments)
    assert sum(line.startswith("# output") for line in comments) == len(graph.outputs)
    assert max(map(len, lines)) < 1000


def test_the_index_has_one_line_per_kernel(dumped):
    directory, seen = dumped
    lines = (directory / "index.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == [f"{k:02}-{name}" for k, (name, _) in enumerate(seen)]
    assert any("nodes" in line and "gone" in line for line in lines)


def test_a_full_disk_ends_no_run(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    watching = Watching(GraphDump.of_step(tmp_path / "file", 0, "step"))
    rewritten(captured(num_dense=1, sparse=False), PSLoadBalancing(communicator="tcp"), 1, 2, observer=watching)
    assert len(watching.seen) > 3
    assert [record.message for record in caplog.records if "can't be written" in record.message][1:] == []
    assert "Not a directory" in caplog.text


@pytest.mark.parametrize(
    ("directory", "message"),
    [("script.py", "it is a file"), ("script.py/below", "it is a file"), ("full", "is not empty")],
)
def test_a_wrong_directory_is_refused_before_anything_starts(tmp_path, directory, message):
    script = tmp_path / "script.py"
    script.write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "content").write_text("")
    with pytest.raises(UsageError, match=message):
        Job(script, SPEC, dump_graphs=tmp_path / directory)
    assert Job(script, SPEC, dump_graphs=tmp_path / "new" / "one").dump_graphs == tmp_path / "new" / "one"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(tmp_path):
    (tmp_path / "script.py").write_text("")
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(UsageError, match="you may not write there"):
        Job(tmp_path / "script.py", SPEC, dump_graphs=tmp_path / "closed" / "graphs")


SCRIPT = """
import numpy as np, tensorflow as tf, autodist
w = tf.Variable(tf.ones([4, 2]), name="w")
with autodist.scope() as ad:
    for number in range(2):
        @ad.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(x @ w)
            w.assign_sub(tape.gradient(loss, w))
            return loss
        step(np.ones([6, 4], np.float32))
"""


@pytest.mark.slow
def test_all_workers_write_all_steps_and_the_run_can_be_explained(tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)

    def autodist(*arguments):
        root = str(Path(__file__).parents[2])
        done = subprocess.run(
            [sys.executable, "-m", "autodist", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120,
            env={**os.environ, "PYTHONPATH": root}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    autodist("run", "train.py", "-n", "2", "--strategy", "PSLoadBalancing", "--run-dir", "r", "--dump-graphs", "d")
    for rank in range(2):
        steps = sorted((tmp_path / "d" / f"rank_{rank}").iterdir())
        assert len(steps) == 2
        for step in steps:
            assert len(list(step.glob("*.pb"))) == len(list(step.glob("*.txt"))) - 1 > 3
    told = json.loads(autodist("explain", "r", "--step", "1", "--json"))
    assert [row["variable"] for row in told["rows"]] == ["w"]
    assert (told["rows"][0]["sent_bytes"], told["cost"]["batch_size"]) == (
        {"localhost": 32.0, "localhost#1": 32.0},
        6,
    )
    assert "the same strategy" in autodist("diff", "r", "PSLoadBalancing")
