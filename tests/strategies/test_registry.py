import sys

import pytest

from autodist import strategies
from autodist.errors import StrategyError
from autodist.search import Auto
from autodist.strategies import (
    AllReduce,
    GraphConfig,
    PluginWarning,
    PSLoadBalancing,
    PSSynchronizer,
    Strategy,
    StrategyBuilder,
    VariableConfig,
    builders,
    compose,
    get,
)

from .examples import graph, spec, variable


def is_own(value):
    return isinstance(value, type) and issubclass(value, StrategyBuilder) and value is not StrategyBuilder


BY_ENTRY_POINT = {"auto", "Tiled"}
OWN = {builder.name for builder in vars(strategies).values() if is_own(builder)} | BY_ENTRY_POINT
HOME = Strategy(GraphConfig(("h0:CPU:0",), "tcp", None), (VariableConfig.whole("w", PSSynchronizer("h0:CPU:0")),), "me")


@pytest.mark.parametrize(
    ("text", "builder"),
    [
        ("PSLoadBalancing", PSLoadBalancing()),
        (" PSLoadBalancing ( ) ", PSLoadBalancing()),
        ("AllReduce", AllReduce()),
        ('AllReduce(chunk_size=64, communicator="collective")', AllReduce(64, "collective")),
        ("AllReduce(\n  chunk_size=64,\n)", AllReduce(64)),
        ("AllReduce(chunk_size=64 # why\n)", AllReduce(64)),
        ("allreduce", AllReduce()),
        ("ALLREDUCE(chunk_size=1)", AllReduce(1)),
        ("AUTO", Auto()),
        ("Auto(online=2)", Auto(online=2)),
    ],
)
def test_builders_by_name(text, builder):
    assert get(text) == builder


def test_what_is_a_builder_or_a_strategy_already_is_returned():
    builder = AllReduce(3)
    assert get(builder) is builder
    assert get(HOME) is HOME


def test_strategies_by_file(tmp_path, monkeypatch):
    HOME.save(tmp_path / "s.json")
    HOME.save(tmp_path / "AllReduce")
    monkeypatch.chdir(tmp_path)
    for path in ("s.json", "./s.json", str(tmp_path / "s.json"), tmp_path / "s.json", "./AllReduce"):
        assert get(path) == HOME
    assert get("AllReduce") == AllReduce()
    with pytest.raises(StrategyError, match=r"`missing\.json` can't be read: No such file"):
        get("missing.json")


@pytest.mark.parametrize("name", ["all-reduce", "All_Reduce", "ALL-REDUCE(chunk_size=1)", "AlReduce"])
def test_near_misses_are_suggested(name):
    with pytest.raises(StrategyError, match="is unknown, did you mean `AllReduce`"):
        get(name)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(StrategyError) as caught:
        get("elephant")
    lines = caught.value.message.splitlines()
    assert lines[:2] == ["the strategy `elephant` is unknown", "known are"]
    assert lines[2:] == [f"  {info.name} - {info.summary}" for info in builders()]


def test_a_file_with_a_builders_looks_is_pointed_out(tmp_path, monkeypatch):
    HOME.save(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StrategyError, match=r"write `\./mine`"):
        get("mine")


def test_all_mistakes_in_the_arguments_are_listed():
    text = "AllReduce(3, chunk_size=0, chnk_size=4, communicator=open('x'), **{'a': 1})"
    with pytest.raises(StrategyError) as caught:
        get(text)
    title, *lines = caught.value.message.splitlines()
    assert title == f"`{text}` has 5 mistakes:"
    assert sorted(lines) == sorted(
        [
            "  - `3` has no name, allowed: `name=value`",
            "  - the parameter `chnk_size` is unknown, did you mean `chunk_size`?",
            "  - `communicator` is `open('x')`, allowed: a plain value (number, quoted text, True, False, None)",
            "  - `**{'a': 1}` has no name, allowed: `name=value`",
            "  - `chunk_size` is 0, allowed: a whole number of at least 1",
        ]
    )
    assert caught.value.hint.startswith("its parameters and defaults are chunk_size=128, communicator='auto', ")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("AllReduce(chunk_size=1, chunk_size=2)", "`chunk_size` is given more than once"),
        ("AllReduce(chunk_size=True)", "`chunk_size` is True, allowed: a whole number"),
        (
            "AllReduce(communicator='mpi')",
            "`communicator` is 'mpi', allowed: `auto` or `tcp` or `horovod` or `collective`",
        ),
        ("AllReduce(chunk_size=)", "not Python keyword arguments"),
        ("AllReduce()(chunk_size=1)", "not Python keyword arguments"),
        ("AllReduce(chunk_size=1) or (2)", "not Python keyword arguments"),
        ("AllReduce(" + "[" * 5000 + ")", "not Python keyword arguments"),
        ("PSLoadBalancing(chunk_size=1)", "the parameter `chunk_size` is unknown"),
    ],
)
def test_wrong_arguments(text, mistake):
    with pytest.raises(StrategyError) as caught:
        get(text)
    assert mistake in caught.value.message


@pytest.mark.parametrize("what", [None, 3, PSLoadBalancing])
def test_what_is_no_strategy_is_refused(what):
    with pytest.raises(StrategyError, match="allowed: a name, a file, a StrategyBuilder or a Strategy"):
        get(what)


def test_builders_tell_their_parameters():
    infos = {info.name: info for info in builders()}
    assert list(infos) == sorted(OWN)
    assert infos["PSLoadBalancing"].parameters == {
        "sync": True,
        "staleness": 0,
        "local_proxy": False,
        "communicator": "auto",
        "servers": None,
        "stations": False,
    }
    assert next(iter(infos["AllReduce"].parameters.items())) == ("chunk_size", 128)
    assert infos["AllReduce"].summary == AllReduce.summary()


def test_compose_builds_and_checks():
    g, d = graph(variable("w")), spec("h0")
    assert compose("PSLoadBalancing", g, d) == HOME
    assert compose(HOME, g, d) is HOME
    with pytest.raises(StrategyError, match="`v`: config is missing"):
        compose(HOME, graph(variable("w"), variable("v")), d)
    with pytest.raises(StrategyError, match="horovod is not installed here"):
        compose("AllReduce(communicator='horovod')", g, d, available_communicators=["collective"])


PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar

from autodist.strategies import PSLoadBalancing, Strategy, StrategyBuilder


@dataclass(frozen=True)
class {name}(StrategyBuilder):
    """Does nothing new."""

    name: ClassVar[str] = "{name}"
    ratio: float = 0.5
    depth: int{default}

    def build(self, graph, spec):
        return PSLoadBalancing().build(graph, spec)
'''


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package of one module with one entry point."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(module, entry, source):
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[autodist.strategies]\n{entry}\n")

    yield install
    for module in [name for name in sys.modules if name.startswith("plugin_")]:
        del sys.modules[module]


def test_plugins_are_found_by_their_entry_point(install):
    install("plugin_one", "Mine = plugin_one:Mine", PLUGIN.format(name="Mine", default=" = 2"))
    assert [info.name for info in builders()] == sorted({*OWN, "Mine"})
    assert str(get("Mine(ratio=1)")) == "Mine(ratio=1)"
    assert compose("Mine", graph(variable("w")), spec("h0")) == HOME


@pytest.mark.parametrize(
    ("entry", "source", "reason"),
    [
        ("Mine = plugin_one:Mine", "1 / 0", "ZeroDivisionError: division by zero"),
        ("Mine = plugin_one:Mine", "", "AttributeError"),
        ("Mine = plugin_one:Mine", "Mine = 3", "it is 3, allowed: a dataclass from StrategyBuilder"),
        ("Yours = plugin_one:Mine", PLUGIN.format(name="Mine", default=" = 2"), "its `name` is 'Mine'"),
        ("Mine = plugin_one:Mine", PLUGIN.format(name="Mine", default=""), "TypeError"),
    ],
)
def test_a_broken_plugin_warns_and_only_its_own_use_fails(install, entry, source, reason):
    install("plugin_one", entry, source)
    name = entry.partition(" ")[0]
    with pytest.warns(PluginWarning, match=reason):
        assert [info.name for info in builders()] == sorted(OWN)
    assert get("AllReduce") == AllReduce()
    with pytest.raises(StrategyError, match=f"the strategy builder `{name}` can't be loaded: .*{reason}"):
        get(name)


@pytest.mark.parametrize("name", ["AllReduce", "Mine"])
def test_two_builders_of_one_name_are_an_error(install, name):
    install("plugin_one", f"{name} = plugin_one:Mine", PLUGIN.format(name="Mine", default=" = 2"))
    install("plugin_two", f"{name} = plugin_two:Mine", PLUGIN.format(name="Mine", default=" = 2"))
    for find in (builders, lambda: get("PSLoadBalancing")):
        with pytest.raises(StrategyError, match=f"two packages bring a strategy builder named `{name}`"):
            find()


@pytest.mark.parametrize(
    ("name", "text", "given"),
    [
        ("plan.yml", '"*": {PartitionedPS: {}}', "PartitionedPS"),
        ("plan.yml", '"*": Tiled', "Tiled"),
        (
            "strategy.json",
            '{"schema_version": 1, "graph": {"replicas": ["a:CPU:0"]}, "variables": [{"variable": "w", "shards": '
            '[{"synchronizer": {"type": "PartitionedPS"}}]}]}',
            "PartitionedPS",
        ),
    ],
)
def test_a_builder_in_place_of_a_synchronizer_is_told_from_one(tmp_path, name, text, given):
    (tmp_path / name).write_text(text)
    with pytest.raises(StrategyError) as caught:
        get(str(tmp_path / name))
    assert caught.value.hint.startswith(
        f"`{given}` is a builder, which decides about all variables: `--strategy {given}`"
    )
    assert "a synchronizer (`PS` or `AllReduce`, in a plan `ps` or `all_reduce`)" in caught.value.hint


def test_mistakes_that_name_no_builder_have_no_hint_about_them(tmp_path):
    (tmp_path / "plan.yml").write_text('"*": {AllReduce: {}}\n')
    with pytest.raises(StrategyError, match="did you mean `all_reduce`") as caught:
        get(str(tmp_path / "plan.yml"))
    assert caught.value.hint is None
