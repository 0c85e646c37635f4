import json

import pytest
from click.testing import CliRunner

from autodist.cli._explain_command import explain
from autodist.cli._strategies import strategies
from autodist.errors import StrategyError
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    builders,
)

MIXED = Strategy(
    GraphConfig(("h0:CPU:0", "h1:CPU:0"), "horovod"),
    (
        VariableConfig.whole("dense/[bold]kernel", AllReduceSynchronizer(7, communicator="horovod")),
        VariableConfig.whole("dense/bias", PSSynchronizer("h1:CPU:0", sync=False, local_proxy=True)),
        VariableConfig(
            "table",
            (ShardConfig(PSSynchronizer("h0:CPU:0", staleness=3), "FP16"), ShardConfig(BroadcastSynchronizer())),
            (2,),
        ),
    ),
    builder="by hand",
)


def run(command, *arguments):
    return CliRunner().invoke(command, arguments, catch_exceptions=False, env={"COLUMNS": "160"}).output


def cells(output, first):
    (line,) = [line for line in output.splitlines() if line.strip().startswith(first)]
    return [cell.strip() for cell in line.split("  ") if cell.strip()]


@pytest.fixture
def path(tmp_path):
    MIXED.save(tmp_path / "s.json")
    return str(tmp_path / "s.json")


def test_explain_shows_every_shard_and_the_totals(path):
    output = run(explain, path)
    assert cells(output, "dense/[bold]") == ["dense/[bold]kernel", "AllReduce", "every worker", "7", "horovod"]
    assert cells(output, "dense/bias") == ["dense/bias", "PS (async, local proxy)", "h1:CPU:0"]
    assert cells(output, "table [0]") == ["table [0]", "2", "PS (staleness=3)", "h0:CPU:0", "FP16"]
    assert cells(output, "table [1]") == ["table [1]", "2", "Broadcast", "every worker", "collective"]
    assert cells(output, "strategy ") == ["strategy", MIXED.id, "by hand"]
    assert cells(output, "variables ") == ["variables", "3 (1 AllReduce, 1 Broadcast, 2 PS)"]
    assert cells(output, "servers ") == ["servers", "1 on h0:CPU:0, 1 on h1:CPU:0"]
    assert cells(output, "groups ") == ["groups", "1"]
    assert cells(output, "collectives ") == ["collectives", "over horovod and collective"]
    assert cells(output, "replicas ") == ["replicas", "2 (h0:CPU:0, h1:CPU:0)"]
    assert cells(output, "loss, metrics ") == ["loss, metrics", "over horovod"]


def test_explain_leaves_out_what_no_variable_has(tmp_path):
    config = VariableConfig.whole("w", PSSynchronizer("h0:CPU:0"))
    Strategy(GraphConfig(("h0:CPU:0",), "tcp"), (config,)).save(tmp_path / "s.json")
    output = run(explain, str(tmp_path / "s.json"))
    assert cells(output, "Variable") == ["Variable", "Synchronizer"]
    assert cells(output, "loss, metrics ") == ["loss, metrics", "over tcp"]


def test_explain_as_json(path):
    told = json.loads(run(explain, path, "--json"))
    assert told["schema_version"] == 3
    assert told["id"] == MIXED.id
    assert told["num_shards_by_synchronizer"] == {"AllReduce": 1, "Broadcast": 1, "PS": 2}
    assert told["rows"][2] == {
        "variable": "table",
        "shard": 0,
        "synchronizer": "PS (staleness=3)",
        "where": "h0:CPU:0",
        "group": None,
        "communicator": None,
        "compressor": "FP16",
        "staleness": 3,
        "partition": "2",
        "shape": None,
        "size_bytes": None,
        "is_sparse": None,
        "sent_bytes": None,
    }
    assert (told["cost"], told["problems"]) == (None, None)


def test_explain_of_a_builder_says_what_is_missing():
    with pytest.raises(StrategyError, match="`AllReduce\\(chunk_size=2\\)` is a builder"):
        run(explain, "AllReduce(chunk_size=2)")
    with pytest.raises(StrategyError, match=r"`missing\.json` can't be read"):
        run(explain, "missing.json")


def test_strategies_lists_the_builders():
    lines = run(strategies).splitlines()
    infos = builders()
    assert [line.split()[0] for line in lines] == [info.name for info in infos]
    assert all(line.endswith(info.summary) for line, info in zip(lines, infos, strict=True))


def test_strategies_shows_the_parameters_of_one():
    output = run(strategies, "AllReduce")
    assert cells(output, "chunk_size") == ["chunk_size", "128"]
    assert cells(output, "communicator") == ["communicator", "'auto'"]
    assert "PSLoadBalancing" not in output
    told = json.loads(run(strategies, "AllReduce", "--json"))
    assert [row["name"] for row in told["strategies"]] == ["AllReduce"]
    with pytest.raises(StrategyError, match="did you mean `AllReduce`"):
        run(strategies, "AlReduce")


def test_strategies_as_json():
    told = json.loads(run(strategies, "--json"))
    assert told["schema_version"] == 1
    parameters = {row["name"]: row["parameters"] for row in told["strategies"]}
    assert list(parameters) == sorted(parameters)
    assert parameters["PS"] == {"sync": True, "staleness": 0, "local_proxy": False, "communicator": "auto"}
