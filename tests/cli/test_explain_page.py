"""What docs/explain.md shows is what the commands print, and its Python runs."""

from __future__ import annotations

import doctest
import json
import re
import shlex
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from autodist.cli._diff_command import diff
from autodist.cli._explain_command import explain
from autodist.coordination import exchanged_file, step_files
from autodist.errors import GraphError
from autodist.graph import Output
from autodist.graph.layouts import Exchanged
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import PSLoadBalancing
from tests.strategies.examples import graph, variable

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
COMMANDS = {"explain": explain, "diff": diff}
BLOCKS = re.findall(r"^```console\n\$ autodist (.*)\n((?:.*\n)*?)```$", PAGE.read_text(), re.MULTILINE)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The run of the page, in the working directory."""
    spec = ResourceSpec((Host("worker1", "worker1"), Host("worker2", "worker2")))
    layers = (
        variable("dense/kernel", (784, 256)),
        variable("dense/bias", (256,)),
        variable("logits/kernel", (256, 10)),
    )
    captured = replace(
        graph(*layers, variable("embedding/table", (100_000, 16), sparse=True)),
        outputs=(Output("loss", (), "float32"),),
        batch_size=128,
    )
    directory = tmp_path / "runs" / "latest"
    directory.mkdir(parents=True)
    strategy_file, graph_file = step_files(directory, 0)
    PSLoadBalancing().build(captured, spec).save(strategy_file)
    captured.save(graph_file)
    (directory / "spec.json").write_text(spec.to_json())
    monkeypatch.chdir(tmp_path)


def printed(command: str) -> str:
    name, *arguments = shlex.split(command)
    env = {"COLUMNS": "110"}
    output = CliRunner().invoke(COMMANDS[name], arguments, catch_exceptions=False, env=env).output
    return "".join(f"{line.rstrip()}\n" for line in output.splitlines())


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command for command, _ in BLOCKS])
@pytest.mark.usefixtures("run")
def test_the_page_shows_what_is_printed(command, shown):
    assert printed(command) == shown


@pytest.mark.usefixtures("run")
def test_what_replicas_exchange_within_a_step_is_listed():
    big = Exchanged("tower/dense/BiasAdd", "BiasAdd", "train.py:31", "gathered", 4_000_000)
    small = Exchanged("loss/Sum", "Sum", "", "added up", 4)
    Exchanged.save([big, small], exchanged_file(step_files(Path("runs/latest"), 0)[1]))
    lines = printed("explain runs/latest").splitlines()
    begin = next(k for k, line in enumerate(lines) if line.startswith("What replicas exchange"))
    assert re.split(r" {2,}", lines[begin + 3]) == [
        "tower/dense/BiasAdd",
        "BiasAdd",
        "train.py:31",
        "gathered",
        "4",
        "2",
    ]
    told = json.loads(printed("explain runs/latest --json"))["exchanged"]
    assert told == [asdict(big), asdict(small)]
    exchanged_file(step_files(Path("runs/latest"), 0)[1]).write_text("[]")
    with pytest.raises(GraphError, match=r"exchanged\.json"):
        printed("explain runs/latest")


@pytest.mark.usefixtures("run")
def test_the_python_of_the_page_runs():
    result = doctest.testfile(str(PAGE), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert (result.failed, result.attempted > 8, len(BLOCKS)) == (0, True, 3)
