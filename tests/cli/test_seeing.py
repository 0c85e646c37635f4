"""`autodist explain` and `autodist diff`: what they find, what they show, and what they refuse."""

from __future__ import annotations

import doctest
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import autodist.report._cells as cells
import autodist.testing._wire as wire
from autodist.cli._diff_command import diff
from autodist.cli._explain_command import explain
from autodist.coordination import step_files
from autodist.errors import GraphError, SpecError, StrategyError, UsageError
from autodist.launch.run_files import RunDirectory, StatusKeeper
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing, traffic
from tests.strategies.examples import graph, variable

SPEC = ResourceSpec((Host("a", "a", bandwidth_gbps=8), Host("b", "b", bandwidth_gbps=8)))
GRAPH = replace(
    graph(
        variable("dense/kernel", (1000, 500)),
        variable("dense/bias", (500,), order=1),
        variable("table", (100_000, 8), sparse=True, order=2),
    ),
    batch_size=32,
)
LARGE = graph(
    *(
        variable(f"encoder/layer_{layer}/attention/{kind}", shape, order=0)
        for layer in range(24)
        for kind, shape in {"query/kernel": (64, 64), "query/bias": (64,)}.items()
    ),
    *(variable(f"{name}/kernel", (2, size)) for size, name in enumerate("abcdefghijklmnopqrstuvwxyzABCDEFGH", 1)),
)
COLLECTIVE = "AllReduce(communicator='collective')"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a run."""
    directory = tmp_path / "run"
    directory.mkdir()
    save_run(directory, GRAPH)
    return directory


def save_run(directory: Path, of: object, step: int = 0) -> None:
    strategy_file, graph_file = step_files(directory, step)
    PSLoadBalancing().build(of, SPEC).save(strategy_file)
    of.save(graph_file)
    (directory / "spec.json").write_text(SPEC.to_json())


def call(command, *arguments: object, width: int = 120):
    arguments = [str(argument) for argument in arguments]
    result = CliRunner().invoke(
        command, arguments, catch_exceptions=False, standalone_mode=False, env={"COLUMNS": str(width)}
    )
    return result.return_value, result.output


def lines(output: str) -> dict[str, list[str]]:
    """The cells of each line by the first of them."""
    rows = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in output.splitlines()]
    return {row[0]: row[1:] for row in rows if row}


# --- explain


def test_a_run_directory_has_all_that_it_takes(run):
    code, output = call(explain, run)
    found = lines(output)
    assert code == 0
    assert found["dense/kernel"] == ["1000x500", "2", "PS", "b:CPU:0", "2"]
    assert found["table"] == ["100000x8", "3.2", "yes", "PS", "a:CPU:0", "<0.001"]
    assert found["a"] == ["2", "2", "8", "2"]  # 2 MB at 8 Gbit/s
    assert found["variables"] == ["3 (3 PS), 5.2 MB"]
    assert "32 examples in all, 32 rows of table (a guess: one per example)" in output
    assert "verification  finds no problem" in output


def test_the_cost_in_json_is_that_of_the_formulas(run):
    code, output = call(explain, run, "--json", "--rows", "table=640")
    told = json.loads(output)
    expected = traffic(PSLoadBalancing().build(GRAPH, SPEC), GRAPH, SPEC, rows={"table": 640})
    pushed, asked, fetched = 320 * (8 * 4 + 8), 320 * 8, 320 * 8 * 4  # half of the rows
    assert code == 0
    assert told["rows"][2]["sent_bytes"] == {"b": pushed + asked, "a": fetched}
    assert told["problems"] == []
    assert {host["host"]: host["sent_bytes"] for host in told["cost"]["hosts"]} == expected.sent
    assert {(link["sender"], link["receiver"]): link["size_bytes"] for link in told["cost"]["links"]} == expected.links
    assert told["cost"]["rows"] == {"table": 640}
    assert told["cost"]["guessed"] == []
    rows = sum(sum(row["sent_bytes"].values()) for row in told["rows"])
    assert rows + told["cost"]["state_bytes"] == pytest.approx(sum(expected.sent.values()))


def test_a_builder_is_explained_on_the_graph_of_a_run(run):
    code, output = call(explain, COLLECTIVE, "--graph", run, "--workers", 4)
    assert code == 0
    assert lines(output)["dense/kernel"] == ["1000x500", "2", "AllReduce", "0", "3"]
    assert lines(output)["localhost#3"][0] == "3"
    assert call(explain, COLLECTIVE, "--graph", run / "graph.zip")[1].count("a -> b") == 1


def test_a_file_is_explained_as_a_run_on_that_cluster_uses_it(run):
    """It was said not to fit where `autodist run` fits it."""
    code, output = call(explain, run / "strategy.json", "--workers", 3)
    assert code == 0, output
    assert "is of another cluster, and was fitted to this one" in output
    assert lines(output)["localhost#2"][0] == "2"
    assert "verification  finds no problem" in output


def test_the_file_of_a_run_finds_what_lies_beside_it(run):
    save_run(run, graph(variable("other")), step=1)
    assert "dense/kernel" in call(explain, run / "strategy.json")[1]
    assert lines(call(explain, run / "strategy.1.json")[1])["other"][:2] == ["4x3", "<0.001"]
    assert call(explain, run, "--step", 1) == call(explain, run / "strategy.1.json")
    (run / "graph.1.zip").unlink()
    assert lines(call(explain, run / "strategy.1.json")[1])["other"] == ["PS"]


def test_problems_are_all_told_and_exit_with_3(run, tmp_path):
    strategy = PSLoadBalancing().build(GRAPH, SPEC)
    strategy = replace(strategy, graph=replace(strategy.graph, communicator="collective"))
    replace(strategy, variables=strategy.variables[1:]).save(tmp_path / "bad.json")
    code, output = call(explain, tmp_path / "bad.json", "--graph", run)
    assert code == 3
    assert "verification  finds 2 problems:" in output
    assert "`dense/kernel`: config is missing" in output
    assert "'collective'" in output
    code, output = call(explain, tmp_path / "bad.json", "--graph", run, "--json")
    assert (code, len(json.loads(output)["problems"])) == (3, 2)


def test_numbers_are_whole_beside_all_columns_there_are():
    texts = ["Shape", "Partition", "Synchronizer", "Where", "Compressor"]
    columns = {"Variable": ["embedding/table [0]"], **{text: [f"{text} of some length"] for text in texts}}
    numbers = {"MB": ["0.002"], "Sparse": ["yes"], "Group": ["12"], "Sent MB": ["<0.001"]}
    shrink = dict.fromkeys(columns, 12)
    console = Console(file=io.StringIO(), width=80)
    console.print(cells.fitted({**columns, **numbers}, 80, right=tuple(numbers), shrink=shrink))
    output = console.file.getvalue()
    assert max(map(len, output.splitlines())) <= 80
    assert "…le [0]" in output
    assert all(cell in output for (cell,) in numbers.values())


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_no_line_is_wider_than_the_terminal(run, width):
    for arguments in ([run], [COLLECTIVE, "--graph", run], ["PartitionedPS", "--graph", run]):
        output = call(explain, *arguments, width=width)[1]
        tables = [line for line in output.splitlines() if "─" in line or "MB" in line]
        assert len(tables) > 3
        assert max(map(len, tables)) <= width
        assert "Sent MB" in output if width > 60 else "Sen" in output


def test_many_variables_share_lines_unless_all_are_wanted(tmp_path):
    LARGE.save(tmp_path / "g.zip")
    arguments = (COLLECTIVE, "--graph", tmp_path / "g.zip", "-n", 2)
    output = call(explain, *arguments)[1]
    assert lines(output)["encoder/layer_*/attention/query/kernel"][:2] == ["24", "64x64"]
    assert "and 6 smaller ones, <0.001 MB in all; `--all` shows each" in output
    assert len(output.splitlines()) < 60
    everything = call(explain, *arguments, "--all")[1]
    assert everything.count("/kernel") == 24 + 34
    assert "--all" not in everything


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["AllReduce"], StrategyError, "is a builder, what it does depends on a graph.*--graph"),
        (["nowhere.json"], StrategyError, r"`nowhere\.json` can't be read"),
        (["Nobody"], StrategyError, "`Nobody` is unknown"),
        (["RUN", "--graph", "nowhere.zip"], GraphError, "can't be read"),
        (["RUN", "--graph", "RUN/strategy.json"], GraphError, "is not a graph file"),
        (["RUN", "--step", "7"], StrategyError, r"has no `strategy.7.json`; it has `strategy.json`"),
        (["RUN/.."], StrategyError, "is it a run directory"),
        (["RUN", "--spec", "nowhere.json"], SpecError, r"`nowhere\.json` can't be read"),
        (["RUN", "--spec", "RUN/strategy.json"], SpecError, "strategy.json"),
        (["RUN", "--spec", "x.yml", "-n", "2"], UsageError, "exclude each other"),
        (["RUN", "--rows", "w=1", "--rows", "table"], UsageError, "(?s)no sparse variable `w`; it has `table`.*--rows"),
    ],
)
def test_mistakes_are_named(run, arguments, error, message):
    with pytest.raises(error, match=message):
        call(explain, *(argument.replace("RUN", str(run)) for argument in arguments))


def test_runs_are_named_as_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="`latest` is not a run"):
        call(explain, "latest")
    directory = RunDirectory.create()
    with StatusKeeper(directory, [host.name for host in SPEC.hosts]) as status:
        save_run(directory.path, GRAPH)
        status.end(0)
    shown = call(explain, directory.path)
    for name in ("latest", directory.run_id, directory.run_id[:12]):
        assert call(explain, name) == shown
        assert call(explain, "PSLoadBalancing", "--graph", name) == shown
        assert call(diff, name, "latest")[0] == 0


def test_a_cluster_without_a_graph_is_a_mistake(run, tmp_path):
    strategy = tmp_path / "s.json"
    AllReduce(communicator="collective").build(GRAPH, SPEC).save(strategy)
    assert call(explain, strategy)[0] == 0
    with pytest.raises(UsageError, match="a cluster was given but no graph"):
        call(explain, strategy, "-n", 2)


@given(st.lists(st.sampled_from(["a", "over", "--allow-open-ports`", "f(x=1,y=2)", "runs/latest"]), min_size=1))
def test_nothing_breaks_in_mid_word(words):
    text = " ".join(words)
    table = cells.fitted({"Host name": ["h"], "Note": [text]}, 24, shrink={"Host name": 4, "Note": 9})
    console = Console(file=io.StringIO(), width=24)
    console.print(table)
    shown = console.file.getvalue()
    lines = [line[table.columns[0].max_width + 1 :] for line in shown.splitlines()[2:]]
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", text)
    assert set(re.findall(r"\w+", text)) <= set(re.findall(r"\w+", " ".join(lines)))


# --- diff


def test_equal_strategies_exit_with_0_whoever_built_them(run, tmp_path):
    by_hand = replace(PSLoadBalancing().build(GRAPH, SPEC), builder="by hand")
    by_hand.save(tmp_path / "s.json")
    code, output = call(diff, run, tmp_path / "s.json")
    assert code == 0
    assert f"the same strategy, {by_hand.id}" in output
    assert lines(output)["all"] == ["4.01", "4.01"]
    assert call(diff, tmp_path / "s.json", tmp_path / "s.json")[0] == 0


def test_differences_are_listed_aspect_by_aspect(run):
    code, output = call(diff, run, COLLECTIVE)
    found = lines(output)
    assert code == 1
    of_graph = [line.split()[1:] for line in output.splitlines() if line.startswith("(graph)")]
    assert of_graph == [["communicator", "tcp", "collective"]]
    assert found["dense/kernel"] == ["synchronizer", "PS (b:CPU:0)", "AllReduce (group 0)"]
    assert len(found["all"]) == 2


def test_differences_as_json(run):
    code, output = call(diff, "AllReduce(chunk_size=1)", "AllReduce", "--graph", run, "--json")
    told = json.loads(output)
    assert (code, told["same"]) == (1, False)
    assert {row["aspect"] for row in told["differences"]} == {"group"}
    assert told["sent_a"] == told["sent_b"]


def test_many_differences_share_lines_unless_all_are_wanted(tmp_path):
    LARGE.save(tmp_path / "g.zip")
    arguments = ("PSLoadBalancing", COLLECTIVE, "--graph", tmp_path / "g.zip", "-n", 1)
    output = call(diff, *arguments)[1]
    assert lines(output)["encoder/layer_*/attention/query/kernel"][:2] == ["24", "synchronizer"]
    assert "--all" not in output
    assert call(diff, *arguments, "--all")[1].count("/query/kernel") == 24


def test_errors_of_a_diff_exit_with_2(run):
    with pytest.raises(StrategyError) as caught:
        call(diff, run, "nowhere.json")
    assert caught.value.exit_code == 2


def test_docstring_examples():
    for module in (cells, wire):
        result = doctest.testmod(module)
        assert (result.failed, result.attempted > 0) == (0, True)
