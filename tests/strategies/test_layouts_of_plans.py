"""Layouts in plan files: which parts of weights replicas have, and what goes between groups of replicas."""

import pytest

from autodist.strategies import (
    PlanWarning,
    TileSynchronizer,
    get,
    verify,
)

from .conftest import D, G
from .examples import spec

LAYOUTS = 'layouts: {"dense/*": 1, "head/*": whole, "*/kernel": 0}\n"*": {all_reduce: {}}\n'


def test_layouts_give_each_replica_a_part(build):
    found = {config.variable: config for config in build(LAYOUTS.replace('"dense/*"', '"dense/kernel"')).variables}
    assert list(found) == [v.name for v in G.trainable]
    assert found["dense/kernel"].partition == (1, 2)
    assert [shard.synchronizer for shard in found["dense/kernel"].shards] == [
        TileSynchronizer("h0:CPU:0", 0),
        TileSynchronizer("h1:CPU:0", 0),
    ]
    assert all(config.partition is None for name, config in found.items() if name != "dense/kernel")


def test_layouts_mean_what_the_builder_means(build):
    text = 'layouts: {"dense/kernel": 1, "head/kernel": 0, "*": whole}\n"*": {all_reduce: {}}\n'
    tiled = get("Tiled(dims=('dense/kernel=1', 'head/kernel=0', '*=whole'))").build(G, D)
    expected = {c.variable: c for c in tiled.variables if c.variable in ("dense/kernel", "head/kernel")}
    found = {c.variable: c for c in build(text).variables if c.variable in expected}
    assert found == expected
    assert not verify(build(text), G, D)


def test_what_layouts_cannot_cut_is_told_with_its_place(refused):
    assert refused(LAYOUTS) == [
        "plan.yml:1:11: `layouts.dense/*` is 1, `dense/bias` has the shape (4,), allowed for 2 replicas: 0, whole"
    ]
    assert refused('layouts: {"*": sideways}\n"*": {all_reduce: {}}') == [
        "plan.yml:1:11: `layouts.*` is `sideways`, allowed: the number of a dim, from 0, or `whole`"
    ]
    assert refused('layouts: [1]\n"*": {all_reduce: {}}') == [
        "plan.yml:1:1: `layouts` is `[1]`, expected patterns of names, each with a dim or `whole`"
    ]


GROUPS = """
graph: {groups: 2}
layouts: {"dense/kernel": 1, "head/kernel": 0}
"dense/*": {all_reduce: {}, compressor: FP16}
"head/*": {all_reduce: {chunk_size: 1}}
"*": {ps: {}}
"""
FOUR = spec(*(f"h{k}" for k in range(4)))


def test_with_groups_rules_say_what_goes_between_them(build):
    strategy = build(GROUPS, d=FOUR)
    assert not verify(strategy, G, FOUR)
    dense, head = strategy.config("dense/kernel"), strategy.config("head/kernel")
    assert (dense.partition, head.partition, strategy.groups_of_replicas) == ((1, 2), (2, 1), 2)
    devices = [shard.synchronizer.devices for shard in dense.shards]
    assert devices == [("h0:CPU:0", "h2:CPU:0"), ("h1:CPU:0", "h3:CPU:0")]
    assert [shard.compressor for shard in dense.shards] == ["FP16", "FP16"]
    assert [shard.compressor for shard in head.shards] == [None, None]
    numbers = [config.synchronizer.group_number for config in (dense, head, strategy.config("dense/bias"))]
    assert len(set(numbers)) == 3
    assert strategy.config("embedding/table").synchronizer.type == "PS"


def test_one_group_may_serve_a_part_for_all(build):
    strategy = build(GROUPS.replace("{all_reduce: {}, compressor: FP16}", "{ps: {}}"), d=FOUR)
    assert not verify(strategy, G, FOUR)
    served = [shard.synchronizer for shard in strategy.config("dense/kernel").shards]
    assert all(one.server in one.devices for one in served)
    assert {one.server for one in served} in ({"h0:CPU:0", "h3:CPU:0"}, {"h1:CPU:0", "h2:CPU:0"})
    assert {shard.synchronizer.server for shard in strategy.config("head/kernel").shards} == {None}


def test_layouts_with_groups_mean_what_the_builder_means(build):
    text = 'graph: {groups: 2}\nlayouts: {"dense/kernel": 1, "*": whole}\n"*": {all_reduce: {communicator: tcp}}\n'
    tiled = get("Tiled(dims=('dense/kernel=1', '*=whole'), groups=2)").build(G, FOUR).config("dense/kernel")
    found = build(text, d=FOUR).config("dense/kernel")
    assert [s.synchronizer.in_group(0) for s in found.shards] == [s.synchronizer.in_group(0) for s in tiled.shards]
    assert found.partition == tiled.partition


def test_what_groups_can_not_do_is_told_with_its_place(refused):
    assert refused(GROUPS.replace("groups: 2", "groups: 0"), d=FOUR) == [
        "plan.yml:2:9: `graph.groups` is 0, allowed: a whole number of at least 1"
    ]
    assert refused(GROUPS.replace("groups: 2", "groups: 3"), d=FOUR) == [
        "plan.yml:2:9: `graph.groups` is 3, allowed: divisors of the 4 replicas (each group has all parts of tiled "
        "variables)"
    ]
    for rule in ("{ps: {}, compressor: FP16}", "{ps: {staleness: 2}}", "{broadcast: {}}"):
        [told] = refused(GROUPS.replace("{all_reduce: {}, compressor: FP16}", rule), d=FOUR)
        assert told == (
            "plan.yml:4:1: `dense/*` is for `dense/kernel`, of which groups of replicas have parts: allowed are "
            "`all_reduce`, perhaps with a `compressor` or a `staleness`, and `ps: {}`"
        )


def test_what_goes_between_groups_may_be_applied_later(build, refused):
    text = 'graph: {groups: 2}\nlayouts: {"dense/kernel": 1}\n"*": {all_reduce: {staleness: 2}}\n'
    strategy = build(text, d=FOUR)
    assert not verify(strategy, G, FOUR)
    assert {synchronizer.delay for _, synchronizer in strategy.synchronizers} == {2}
    built = get("Tiled(dims=('dense/kernel=1', '*=whole'), groups=2, staleness=2)").build(G, FOUR)
    assert {synchronizer.delay for _, synchronizer in built.synchronizers} == {2}
    assert refused(text.replace("2}}", "-2}}"), d=FOUR) == [
        "plan.yml:3:20: `*.all_reduce.staleness` is -2, allowed: a whole number of at least 0"
    ]


@pytest.mark.parametrize("rule", ["{sync: false}", "{staleness: 2}"])
def test_parts_and_workers_that_go_on_by_themselves_are_refused(build, rule):
    strategy = build(f'layouts: {{"dense/kernel": 1, "*": whole}}\n"*": {{ps: {rule}}}\n')
    assert any("is asynchronous for `dense/bias`" in str(problem) for problem in verify(strategy, G, D))


def test_layouts_that_fit_nothing_give_a_warning(build):
    with pytest.warns(PlanWarning, match=r"plan.yml:1: `conv\*`: it matches no variable"):
        build('layouts: {"conv*": 1}\n"*": {all_reduce: {}}')
