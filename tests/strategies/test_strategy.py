import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from autodist.errors import StrategyError
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
)

from .examples import any_strategies

SMALL = Strategy(
    GraphConfig(("a:CPU:0", "b:CPU:0"), "collective"),
    (
        VariableConfig.whole("w", PSSynchronizer("a:CPU:0")),
        VariableConfig(
            "v",
            (ShardConfig(AllReduceSynchronizer(0), "fp16"), ShardConfig(BroadcastSynchronizer())),
            ((1, 3), 1),
        ),
    ),
    builder="by hand",
)

SMALL_JSON = {
    "schema_version": 1,
    "builder": "by hand",
    "graph": {"replicas": ["a:CPU:0", "b:CPU:0"], "communicator": "collective"},
    "variables": [
        {
            "variable": "w",
            "shards": [
                {
                    "synchronizer": {
                        "type": "PS",
                        "destination": "a:CPU:0",
                        "sync": True,
                        "staleness": 0,
                        "local_proxy": False,
                        "transfer": [],
                    }
                }
            ],
        },
        {
            "variable": "v",
            "shards": [
                {
                    "synchronizer": {
                        "type": "AllReduce",
                        "group": 0,
                        "communicator": "collective",
                    },
                    "compressor": "fp16",
                },
                {"synchronizer": {"type": "Broadcast", "communicator": "collective"}},
            ],
            "partition": [[1, 3], 1],
        },
    ],
}


@given(any_strategies)
def test_json_brings_everything_back(strategy):
    again = Strategy.from_json(strategy.to_json())
    assert again == strategy
    assert again.builder == strategy.builder
    assert again.id == strategy.id


def test_json_is_stable_readable_text():
    assert SMALL.to_json() == json.dumps(SMALL_JSON, indent=2) + "\n"


def test_defaults_may_be_left_out_of_handwritten_json():
    text = """{"schema_version": 1, "graph": {"replicas": ["a:CPU:0"], "communicator": "collective"},
               "variables": [{"variable": "w", "shards": [{"synchronizer": {"type": "PS", "destination": "a:CPU:0"}}]}]
            }"""
    config = VariableConfig.whole("w", PSSynchronizer("a:CPU:0"))
    assert Strategy.from_json(text) == Strategy(GraphConfig(("a:CPU:0",), "collective"), (config,))


def test_id_is_the_same_whoever_built_it_and_in_every_process():
    # The literal: what the id is made of is not changed unawares; people compare ids of runs and trials.
    assert SMALL.id == "9bda972713e3bc6e"
    assert dataclasses.replace(SMALL, builder="search").id == SMALL.id
    code = "import sys; from autodist.strategies import Strategy; print(Strategy.from_json(sys.stdin.read()).id)"
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=SMALL.to_json(),
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stdout.strip() == SMALL.id


def _changed(synchronizer):
    return dataclasses.replace(SMALL, variables=(VariableConfig.whole("w", synchronizer), SMALL.variables[1]))


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(SMALL, graph=GraphConfig(("b:CPU:0", "a:CPU:0"), "collective")),
        dataclasses.replace(SMALL, graph=GraphConfig(("a:CPU:0", "b:CPU:0"), "horovod")),
        dataclasses.replace(SMALL, graph=GraphConfig(("a:CPU:0", "b:CPU:0"), "tcp")),
        dataclasses.replace(SMALL, variables=SMALL.variables[:1]),
        dataclasses.replace(
            SMALL, variables=(VariableConfig("w", SMALL.variables[0].shards, (1,)), SMALL.variables[1])
        ),
        _changed(PSSynchronizer("b:CPU:0")),
        _changed(PSSynchronizer("a:CPU:0", sync=False)),
        _changed(PSSynchronizer("a:CPU:0", staleness=1)),
        _changed(PSSynchronizer("a:CPU:0", local_proxy=True)),
        _changed(PSSynchronizer("a:CPU:0", transfer=("a:CPU:0",))),
        _changed(AllReduceSynchronizer(0)),
        _changed(AllReduceSynchronizer(0, communicator="tcp")),
        _changed(BroadcastSynchronizer()),
    ],
)
def test_id_and_equality_see_every_aspect(other):
    assert other.id != SMALL.id
    assert other != SMALL


def test_every_mistake_in_the_json_is_listed():
    text = """{
      "schema_version": true, "builder": 2, "colour": "red",
      "graph": {"replicas": ["a:CPU:0", 2], "comunicator": "collective"},
      "variables": [
        {"variable": "w", "shards": [{"synchronizer": {"type": "Ps"}}, {"synchronizer": {"type": "PS", "sync": 1}}]},
        {"variable": "v", "variable": "v", "shards": [{"synchronizer": "PS", "compressor": 1}], "partition": ["a"]},
        {"variable": "u", "shards": [
          {"synchronizer": {"type": "AllReduce", "group": 1.0, "order": "star", "communicator": "queue"}}]},
        7
      ]}"""
    with pytest.raises(StrategyError) as caught:
        Strategy.from_json(text)
    lines = caught.value.message.splitlines()
    kinds = "an object whose `type` is `PS` or `AllReduce` or `Broadcast` or `Tile`"
    assert lines[0] == "the strategy's JSON has 17 mistakes:"
    assert sorted(lines[1:]) == sorted(
        f"  - {line}"
        for line in [
            "`schema_version` is True, allowed: 1",
            "`builder` is 2, allowed: a text",
            "`colour` is unknown, allowed: graph, variables, builder",
            "`graph.replicas[1]` is 2, allowed: a text",
            "`graph.comunicator` is unknown, did you mean `communicator`?",
            "`graph.communicator` is missing",
            f"`variables[0].shards[0].synchronizer.type` is 'Ps', allowed: {kinds}",
            "`variables[0].shards[1].synchronizer.destination` is missing",
            "`variables[0].shards[1].synchronizer.sync` is 1, allowed: true or false",
            "`variable` is given twice in one object",
            f"`variables[1].shards[0].synchronizer` is 'PS', allowed: {kinds}",
            "`variables[1].shards[0].compressor` is 1, allowed: a text or null",
            "`variables[1].partition` is ['a'], allowed: a list (each: a list (each: a whole number) or a whole number)"
            " or null",
            "`variables[2].shards[0].synchronizer.group` is 1.0, allowed: a whole number",
            "`variables[2].shards[0].synchronizer.order` is unknown, allowed: group, communicator, staleness",
            "`variables[2].shards[0].synchronizer.communicator` is 'queue', allowed: "
            "`tcp` or `horovod` or `collective` (`queue`, TensorFlow's servers, is no longer there: `tcp` does all "
            "that it did)",
            "`variables[3]` is 7, allowed: an object",
        ]
    )


def test_objects_that_are_equal_are_read_once_and_mistakes_are_told_of_each():
    def text(*compressors):
        synchronizer = {"type": "PS", "destination": "a:CPU:0"}
        shards = [{"synchronizer": synchronizer, "compressor": compressor} for compressor in compressors]
        variables = [{"variable": name, "shards": shards} for name in "vw"]
        graph = {"replicas": ["a:CPU:0"], "communicator": "queue"}
        return json.dumps({"schema_version": 1, "graph": graph, "variables": variables})

    first, second = Strategy.from_json(text(None)).variables
    assert first.shards[0] is second.shards[0]
    with pytest.raises(StrategyError) as caught:
        Strategy.from_json(text(1, True))
    assert [line.split("`")[1] for line in caught.value.message.splitlines()[1:]] == [
        f"variables[{v}].shards[{s}].compressor" for v in range(2) for s in range(2)
    ]


def test_a_newer_schema_is_refused_before_its_unknown_keys():
    with pytest.raises(StrategyError) as caught:
        Strategy.from_json('{"schema_version": 2, "colour": "red"}')
    assert caught.value.message == "the strategy's JSON has `schema_version` 2, allowed: up to 1"
    assert "upgrade" in caught.value.hint


@pytest.mark.parametrize("order", ["ring", "hierarchical"])
def test_older_files_have_an_order_that_never_changed_what_ran(order):
    new = dataclasses.replace(SMALL, variables=(VariableConfig.whole("v", AllReduceSynchronizer(0)),))
    old = new.to_json().replace('"group": 0,', f'"group": 0, "order": "{order}",')
    assert old != new.to_json()
    again = Strategy.from_json(old)
    assert (again, again.id, again.to_json()) == (new, new.id, new.to_json())


@pytest.mark.parametrize("version", ["0", "-1", "null", '"1"', "1.0"])
def test_a_wrong_schema_version_is_a_mistake(version):
    text = SMALL.to_json().replace('"schema_version": 1', f'"schema_version": {version}')
    with pytest.raises(StrategyError, match="`schema_version` is "):
        Strategy.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000, "9" * 5_000])
def test_what_is_no_json_object_is_refused(text):
    with pytest.raises(StrategyError, match=r"^the strategy's JSON (can't be parsed|is)"):
        Strategy.from_json(text)


def test_files_bring_everything_back(tmp_path):
    path = tmp_path / "with space 'and\nnewline.json"
    SMALL.save(path)
    SMALL.save(str(path))
    assert Strategy.load(path) == SMALL
    assert list(tmp_path.iterdir()) == [path]


def test_a_failing_save_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "s.json"
    path.write_text("old")

    def full(self, target):
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="disk full"):
        SMALL.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"\xff", "not UTF-8"), (b"{}", "`graph` is missing"), (b"[", "can't be parsed")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, content, reason):
    path = tmp_path / "s.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(StrategyError) as caught:
        Strategy.load(path)
    assert str(path) in caught.value.message
    assert reason in caught.value.message


def test_config_by_name():
    assert SMALL.config("v") is SMALL.variables[1]
    with pytest.raises(StrategyError, match="no config for the variable `V`, did you mean `v`"):
        SMALL.config("V")


def test_a_strategy_knows_whether_it_has_servers():
    assert SMALL.has_servers
    assert not dataclasses.replace(SMALL, variables=SMALL.variables[1:]).has_servers
    shards = (ShardConfig(BroadcastSynchronizer()), ShardConfig(PSSynchronizer("a:CPU:0")))
    assert Strategy(SMALL.graph, (VariableConfig("v", shards, (2,)),)).has_servers


def test_groups_are_numbered_and_keep_the_order_of_their_members():
    numbers = {"d": 7, "c": 0, "b": 7}
    configs = [VariableConfig.whole(name, AllReduceSynchronizer(group)) for name, group in numbers.items()]
    configs.append(VariableConfig.whole("a", PSSynchronizer("h:CPU:0")))
    groups = Strategy(SMALL.graph, tuple(configs)).groups
    assert list(groups.items()) == [(0, ("c",)), (7, ("d", "b"))]


def test_what_a_strategy_consists_of_in_words():
    assert SMALL.mixture == "1 PS, 1 AllReduce and Broadcast over collective, 1 cut"
