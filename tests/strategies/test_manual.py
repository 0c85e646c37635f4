"""Plan files: what they say, and how their mistakes are told."""

import re
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.strategies import (
    AllReduceSynchronizer,
    Manual,
    PlanWarning,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    get,
    verify,
)

from .conftest import D, G
from .examples import ALL, graph, graphs, spec, specs, variable


def test_the_first_match_wins(build):
    strategy = build(
        """
        embedding*: {ps: {staleness: 2}, partition: {dim: 0, parts: 4}}
        "*/bias": {all_reduce: {group: 7}}
        "*": {all_reduce: {chunk_size: 1}}
        """
    )
    table = strategy.config("embedding/table")
    assert table.partition == (4, 1)
    assert [shard.synchronizer.destination[:2] for shard in table.shards] == ["h0", "h1", "h0", "h1"]
    assert all(shard.synchronizer.staleness == 2 for shard in table.shards)
    assert strategy.groups == {7: ("dense/bias",), 8: ("head/kernel",), 9: ("dense/kernel",)}
    assert strategy.graph.communicator == "tcp"
    assert strategy.config("dense/bias").synchronizer.communicator == "horovod"
    assert problems(strategy) == []


def problems(strategy, g=G, d=D):
    return [str(problem) for problem in verify(strategy, g, d, available_communicators=ALL)]


def test_every_aspect_can_be_said(build):
    strategy = build(
        """
        graph:
          replicas: ["h0:CPU:0", "h1:CPU:0"]
          communicator: tcp
        embedding/table:
          partition: [[60, 40], 1]
          shards:
            - ps: {destination: "h1:CPU:0", staleness: 2, transfer: ["h0:CPU:0"]}
            - ps: {sync: false, transfer: auto}
              compressor: FP16
        dense/kernel:
          partition: {dim: 1, parts: [1, 3]}
          all_reduce: {group: 3, communicator: horovod}
          compressor: TopK(ratio=0.1)
        dense/bias: {all_reduce: {group: 4, communicator: horovod}}
        head/kernel: {broadcast: {}}
        """
    )
    kernel = ShardConfig(AllReduceSynchronizer(3, "horovod"), "TopK(ratio=0.1)")
    assert strategy.config("embedding/table") == VariableConfig(
        "embedding/table",
        (
            ShardConfig(PSSynchronizer("h1:CPU:0", staleness=2, transfer=("h0:CPU:0",))),
            ShardConfig(PSSynchronizer("h0:CPU:0", sync=False), "FP16"),
        ),
        ((60, 40), 1),
    )
    assert strategy.config("dense/kernel") == VariableConfig("dense/kernel", (kernel, kernel), (1, (1, 3)))
    assert strategy.config("head/kernel").synchronizer.type == "Broadcast"
    assert strategy.graph.communicator == "tcp"
    assert Strategy.from_json(strategy.to_json()) == strategy


def test_hosts_with_several_replicas_get_stations_by_themselves(build):
    strategy = build('"*": {ps: {transfer: auto}}', d=spec("h0", "h1", cpus=2))
    assert strategy.config("dense/bias").synchronizer.transfer == ("h0:CPU:0", "h1:CPU:0")


def test_what_is_fixed_on_a_server_counts_as_its_load(build):
    strategy = build('embedding*: {ps: {destination: "h0:CPU:0"}}\n"*": {ps: {}}')
    homes = {config.variable: config.synchronizer.destination for config in strategy.variables}
    assert homes.pop("embedding/table") == "h0:CPU:0"
    assert set(homes.values()) == {"h1:CPU:0"}
    assert strategy.graph.communicator == "tcp"


def test_coupled_variables_are_balanced_as_one_and_never_left_without_a_home(build):
    coupled = ("a", "b")
    g = graph(variable("a", (8, 8), coupled=coupled), variable("b", (8, 8), coupled=coupled), variable("c", (9, 9)))
    homes = {config.variable: config.synchronizer.destination for config in build('"*": {ps: {}}', g).variables}
    assert homes["a"] == homes["b"] != homes["c"]
    torn = build('b: {ps: {}, partition: {parts: 2}}\n"*": {ps: {}}', g)
    assert {shard.synchronizer.destination for config in torn.variables for shard in config.shards} <= {
        "h0:CPU:0",
        "h1:CPU:0",
    }


def test_sparse_variables_are_groups_of_their_own_and_groups_have_one_dtype(build):
    g = graph(*(variable(f"v{i}", (8,), "float64" if i % 2 else "float32", i > 3, order=i) for i in range(6)))
    strategy = build('"*": {all_reduce: {}}', g)
    assert strategy.groups == {0: ("v0", "v2"), 1: ("v1", "v3"), 2: ("v4",), 3: ("v5",)}
    assert problems(strategy, g) == []


def test_all_mistakes_are_told_with_their_places(refused):
    lines = refused(
        """\
embedding*: {pss: {}, partition: {dim: zero, parts: 4}}
"*/bias":
  ps:
    stalenes: 2
    destination: 3
  all_reduce: {group: 1, chunk_size: 0}
dense*:
  ps: {staleness: 1, sync: false}
  compressor: FP17
head*: {partition: [0, 2]}
"*": {shards: [{ps: {}}]}
graph: {replica: ["h0:CPU:0"]}
"""
    )
    assert lines[0] == "plan.yml has 12 mistakes:"
    assert lines[1:] == [
        "  plan.yml:1:14: `embedding*.pss` is unknown, did you mean `ps`?",
        "  plan.yml:1:35: `embedding*.partition.dim` is 'zero', allowed: a whole number",
        "  plan.yml:4:5: `*/bias.ps.stalenes` is unknown, did you mean `staleness`?",
        "  plan.yml:5:5: `*/bias.ps.destination` is 3, allowed: a text",
        "  plan.yml:6:26: `*/bias.all_reduce.chunk_size` is 0, allowed: a whole number of at least 1",
        "  plan.yml:6:26: `*/bias.all_reduce.chunk_size` is given together with `group`, allowed: one of the two",
        "  plan.yml:8:8: `dense*.ps.staleness` is 1 with `sync: false`, allowed: 0 (workers do not wait)",
        "  plan.yml:9:3: `dense*.compressor` is `FP17`: the compressor `FP17` is unknown, did you mean `FP16`?",
        "  plan.yml:10:1: `head*` has no synchronizer, allowed: one of `ps`, `all_reduce`, `broadcast`",
        "  plan.yml:10:21: `head*.partition[0]` is not allowed: parts and their sizes are whole numbers of at least 1",
        "  plan.yml:11:7: `*.shards` needs `partition`, which says what they are",
        "  plan.yml:12:9: `graph.replica` is unknown, did you mean `replicas`?",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "plan.yml is empty, a plan has at least one pattern"),
        ("[1]", "plan.yml:1:1: a plan has at least one pattern"),
        ("{}", "plan.yml:1:1: a plan has at least one pattern"),
        ("a: {", "plan.yml:1:5: not YAML"),
        ("a: 3", "plan.yml:1:1: `a` is 3, allowed: an object"),
        ("a:", "plan.yml:1:1: `a` is empty, give it a value or remove it"),
        ("a: {ps: }", "plan.yml:1:5: `a.ps` is empty, give it a value or remove it"),
        ("a: {ps: {}}\na: {ps: {}}", "plan.yml:2:1: `a` is given twice, first in line 1"),
        ("a: {ps: {}, broadcast: {}}", "plan.yml:1:1: `a` has `ps` and `broadcast`, allowed: one of"),
        ("a: {all_reduce: {group: 0, chunk_size: 2}}", "plan.yml:1:28: `a.all_reduce.chunk_size` is given together"),
        ("a: {all_reduce: {group: -1}}", "`a.all_reduce.group` is -1, allowed: a whole number of at least 0"),
        (
            "graph: {communicator: queue}\na: {ps: {}}",
            "`graph.communicator` is 'queue', allowed: `auto` or `tcp` or `horovod` or `collective` (`queue`, Tensor",
        ),
        ("a: {ps: {staleness: -1}}", "`a.ps.staleness` is -1, allowed: a whole number of at least 0"),
        ("a: {ps: {staleness: true}}", "`a.ps.staleness` is True, allowed: a whole number"),
        ("a: {ps: {}, partition: {dim: -1, parts: 2}}", "`a.partition.dim` is -1"),
        ("a: {ps: {}, partition: {dim: 0}}", "`a.partition.parts` is missing"),
        ("a: {ps: {}, partition: two}", "`a.partition` is 'two', allowed: an object or a list"),
        ("a: {ps: {}, partition: [2], shards: [{ps: {}}]}", "`a.ps` is given together with `shards`, give it to each"),
        ("a: {all_reduce: {order: ring}}", "`a.all_reduce.order` is unknown, allowed: group, chunk_size, communicator"),
    ],
)
def test_mistakes_in_plans_are_said(refused, text, mistake):
    assert any(mistake in line for line in refused(text)), refused(text)


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('"*": {ps: {destination: "h9:CPU:0"}}', "`*.ps.destination` is `h9:CPU:0`, the cluster has `h0:CPU:0`"),
        ('"*": {ps: {transfer: ["h9:CPU:0"]}}', "`*.ps.transfer[0]` is `h9:CPU:0`"),
        ('graph: {replicas: ["x:CPU:0"]}\n"*": {ps: {}}', "plan.yml:1:20: `graph.replicas[0]` is `x:CPU:0`"),
        ('"*": {ps: {}, partition: {dim: 1, parts: 2}}', "`*.partition` does not fit `dense/bias` of shape (4,)"),
        ('"*": {ps: {}, partition: {parts: 5}}', "`*.partition` does not fit `head/kernel` of shape (4, 2): 5 parts"),
        (
            '"*": {partition: {parts: 2}, shards: [{ps: {}}]}',
            "`*.shards` has 1 elements, the partition of `dense/kernel` makes 2 shards",
        ),
    ],
)
def test_plans_that_do_not_fit_the_model_or_the_cluster(refused, text, mistake):
    assert any(mistake in line for line in refused(text)), refused(text)


def test_a_variable_without_a_pattern_is_named(build):
    with pytest.raises(StrategyError, match="no pattern matches `embedding/table`, `head/kernel`") as caught:
        build("dense*: {ps: {}}")
    assert caught.value.hint == 'end the plan with a pattern for all others: `"*": {all_reduce: {}}`'


@pytest.mark.parametrize(
    ("pattern", "why"), [("dens/*", "it matches no variable"), ("dense/b*", "earlier patterns match all")]
)
def test_a_pattern_without_a_variable_is_warned_of(build, pattern, why):
    with pytest.warns(PlanWarning, match=rf"plan.yml:2: `{re.escape(pattern)}`: {why}"):
        build(f'dense*: {{ps: {{}}}}\n{pattern}: {{ps: {{}}}}\n"*": {{ps: {{}}}}')


def test_plans_are_found_by_their_ending(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.yml").write_text('"*": {ps: {}}')
    Path("other.yaml").write_text('"*": {ps: {}}')
    assert get("plan.yml") == get("Manual") == get("Manual(plan='plan.yml')") == Manual("plan.yml")
    assert get(Path("other.yaml")) == Manual("other.yaml")
    with pytest.raises(StrategyError, match=r"plan `missing\.yml` does not exist"):
        get("missing.yml")
    Path("plan.yml").write_text('"*": {pss: {}}')
    with pytest.raises(StrategyError, match=r"plan\.yml:1:7: `\*\.pss` is unknown, did you mean `ps`"):
        get("plan.yml")


_SECTIONS = st.sampled_from(
    [
        "{ps: {}}",
        "{ps: {staleness: 2, transfer: auto}}",
        "{all_reduce: {}}",
        "{all_reduce: {chunk_size: 1}}",
    ]
)


@settings(max_examples=60, deadline=None)
@given(graphs(), specs(), _SECTIONS, _SECTIONS)
def test_plans_without_fixed_places_fit_every_model(tmp_path_factory, g, d, some, others):
    path = tmp_path_factory.mktemp("plan") / "plan.yml"
    path.write_text(f'"[0-9]*": {some}\n"*": {others}')
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanWarning)
        strategy = Manual(str(path)).build(g, d)
    # Two patterns may tear apart what is coupled, which only who writes them can mend.
    assert [text for text in problems(strategy, g, d) if "coupled variables" not in text] == []


# --- the page

PAGE = Path(__file__).parents[2] / "docs" / "manual_strategy.md"


def test_the_pages_plans_do_what_it_says(build):
    plan, layouts, groups, mixed = re.findall(r"```yaml title=\"\w+\.yml\"\n(.*?)```", PAGE.read_text(), re.DOTALL)
    strategy = build(plan)
    assert strategy.config("embedding/table").partition == (4, 1)
    assert strategy.config("head/kernel").shards[0].compressor == "FP16"
    assert strategy.config("dense/bias").shards[0].compressor is None
    blocks = graph(*(variable(f"block_0/{way}/kernel", (8, 4)) for way in ("up", "down", "by")))
    assert [config.partition for config in build(layouts, blocks).variables] == [(1, 2), (2, 1), None]
    four = spec(*(f"h{k}" for k in range(4)))
    with_head = graph(*blocks.variables, variable("head/kernel", (4, 2)))
    assert [c.partition for c in build(groups, with_head, four).variables] == [(1, 2), (2, 1), None, None]
    halves = build(mixed).config("dense/kernel").shards
    assert [shard.synchronizer.type for shard in halves] == ["PS", "AllReduce"]


def test_the_page_shows_the_mistakes_as_they_are_told(refused):
    (text,) = re.findall(r"```text\nautodist: error: (.*?)```", PAGE.read_text(), re.DOTALL)
    mistaken = '"embedding*": {pss: {}}\n"*/bias": {ps: {stalenes: 2}}\n"*": {all_reduce: {}, compressor: FP17}\n'
    mistakes = [re.sub(r":\d+: ", ": ", line) for line in refused(mistaken)]
    shown = [re.sub(r":\d+: ", ": ", line) for line in text.splitlines()]
    assert [line for line in mistakes if "synchronizer" not in line] == shown


def test_the_page_lists_every_key():
    from dataclasses import fields

    from autodist.strategies._builders import _plan_file as sections

    for prefix, section in (("ps.", sections.ServerSection), ("all_reduce.", sections.GroupSection)):
        assert all(f"| `{prefix}{field.name}` |" in PAGE.read_text() for field in fields(section))
    keys = {field.name for field in fields(sections.VariableSection)} - {"ps", "all_reduce"}
    assert all(f"| `{key}` |" in PAGE.read_text() for key in keys)
