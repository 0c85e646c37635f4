"""The space, and proposals drawn from it: each is a strategy that verification accepts."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.errors import SpaceEmpty, UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import ASPECTS, Catalogue, Choice, Rule, Space, adjacent_groups, balanced_servers, sample
from autodist.simulator import Calibration, Domain, EventSimulator, tabulate
from autodist.strategies import verify
from autodist.strategies.synchronizers import words_of
from tests.strategies.examples import ALL, graph, graphs, spec, specs, variable

LARGE = (512, 64)


def space(g, d, *rules, communicators=ALL, aspects=None):
    return Space(Domain.of(g, d), rules, communicators=communicators, aspects=aspects)


def in_order(table):
    keys = [getattr(table, name) for name in ("group", "server", "summed_bytes", "size_bytes", "variable", "strategy")]
    return table.take(np.lexsort(keys))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_every_proposal_is_a_strategy_that_fits(data):
    g, d = data.draw(graphs().filter(lambda g: g.trainable)), data.draw(specs())
    aspects = data.draw(st.sampled_from([None, ASPECTS]))
    communicators = data.draw(st.sampled_from([ALL, ("collective",), ("tcp",)]))
    found = space(g, d, communicators=communicators, aspects=aspects)
    catalogue = Catalogue.of(found)
    proposals = sample(found, catalogue, 5, np.random.default_rng(data.draw(st.integers(0, 99))))
    made = [proposals.strategy(number, found, catalogue) for number in range(5)]
    for strategy in made:
        assert not verify(strategy, g, d, available_communicators=communicators)
    one, other = in_order(proposals.table), in_order(tabulate(made, found.domain))
    for field in dataclasses.fields(one):
        assert getattr(one, field.name).tolist() == getattr(other, field.name).tolist(), field.name


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_some_of_the_proposals_are_those_proposals(data):
    g, d = data.draw(graphs().filter(lambda g: g.trainable)), data.draw(specs())
    found = space(g, d)
    catalogue = Catalogue.of(found)
    proposals = sample(found, catalogue, 6, np.random.default_rng(0))
    numbers = np.array(data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=8)), np.int32)
    some = proposals.take(numbers)
    for place, number in enumerate(numbers):
        assert some.strategy(place, found, catalogue) == proposals.strategy(int(number), found, catalogue)
    assert (some.fingerprints == proposals.fingerprints[numbers]).all()


def test_draws_have_every_kind_of_synchronization():
    g = graph(variable("dense", LARGE), variable("sparse", LARGE, sparse=True), variable("small", (4,)))
    found = space(g, spec("a", "b", "c"))
    catalogue = Catalogue.of(found)
    proposals = sample(found, catalogue, 400, np.random.default_rng(0))
    assert set(proposals.choices.ravel().tolist()) == set(range(catalogue.first[-1]))
    families = {proposals.strategy(number, found, catalogue).carriers for number in range(100)}
    assert families == {("tcp",), ("horovod",), ("collective",)}


def test_lossy_aspects_are_left_out_unless_asked_for():
    g, d = graph(variable("w", LARGE)), spec("a", "b")
    words = {word for choice in space(g, d).units[0].choices for word in words_of(choice)}
    assert not words & {"compressor", "staleness", "async"}
    words = {word for choice in space(g, d, aspects=ASPECTS).units[0].choices for word in words_of(choice)}
    assert {"compressor", "staleness", "async"} <= words


def test_shards_of_several_synchronizers_are_asked_for():
    g, d = graph(variable("w", LARGE)), spec("a", "b", "c")
    assert not any(choice.by_shard for choice in space(g, d).units[0].choices)
    mixed = [aspect for aspect in ASPECTS if aspect.is_searched or aspect.name == "mixed"]
    found = space(g, d, Rule.fix("w=mixed"), communicators=("tcp",), aspects=mixed)
    catalogue = Catalogue.of(found)
    proposals = sample(found, catalogue, 40, np.random.default_rng(0))
    made = [proposals.strategy(number, found, catalogue).variables[0] for number in range(40)]
    assert {c.partition for c in made} == {cut for parts in (2, 3, 6) for cut in ((parts, 1), (1, parts))}
    for config in made:
        kinds = [shard.synchronizer.type for shard in config.shards]
        served = len(kinds) // 2
        assert kinds == ["PS"] * served + ["AllReduce"] * (len(kinds) - served)
    for word in ("ps", "allreduce", "mixed"):
        choices = space(g, d, Rule.exclude(f"w={word}"), communicators=("tcp",), aspects=mixed).units[0].choices
        assert not any(choice.by_shard for choice in choices)


@pytest.mark.parametrize(("slowest_gbps", "offered"), [(1.0, False), (0.9, False), (0.25, True)])
def test_copies_are_offered_where_some_links_are_clearly_slower(slowest_gbps, offered):
    hosts = tuple(Host(name, name, bandwidth_gbps=slowest_gbps if name == "c" else 1.0) for name in "abc")
    found = space(graph(variable("w"), variable("table", (60, 4), sparse=True)), ResourceSpec(hosts))
    copied = {u.variables[0].name for u in found.units if any(choice.local_proxy for choice in u.choices)}
    assert copied == ({"w"} if offered else set())


@pytest.mark.parametrize(("slowest_gbps", "parts"), [(0.25, (178, 178, 44)), (0.9, None)])
def test_parts_by_bandwidth_are_offered_where_some_links_are_clearly_slower(slowest_gbps, parts):
    hosts = tuple(Host(name, name, bandwidth_gbps=slowest_gbps if name == "c" else 1.0) for name in "abc")
    found = space(graph(variable("w", (400, 500)), variable("small", (400, 4))), ResourceSpec(hosts))
    cut = {u.name: {choice.partition for choice in u.choices} for u in found.units}
    uneven = {partition for partition in cut["w"] if partition and any(isinstance(n, tuple) for n in partition)}
    assert uneven == ({(parts, 1)} if parts else set())
    assert cut["small"] == {None}, "its parts are not worth their messages"


def test_on_a_slow_link_it_counts_what_a_host_receives_of_others_and_what_it_sends_of_its_own():
    """Of three hosts, who serves a share f of 8 MB receives 1 - f of it and sends 2 f: thirds are best."""
    hosts = tuple(Host(name, name, bandwidth_gbps=0.25 if name == "c" else 1.0) for name in "abc")
    found = space(graph(variable("w", (400, 5000))), ResourceSpec(hosts), Rule.fix("w=ps"), communicators=("tcp",))
    drawn = sample(found, Catalogue.of(found), 400, np.random.default_rng(0))
    times = EventSimulator(Calibration(servers=1.0)).score(drawn.table, found.domain, len(drawn))
    copied = np.bincount(drawn.table.strategy, drawn.table.is_proxied, len(drawn)) > 0
    by_partition = {}
    for choice, step_s, is_copied in zip(drawn.choices[:, 0], times, copied, strict=True):
        partition = found.units[0].choices[choice].partition
        if not is_copied:
            by_partition[partition] = min(by_partition.get(partition, np.inf), step_s)
    both_ways_s = 2 * 8e6 * 7 / 8 * 8 / 0.25e9  # pulled and pushed, as floats are encoded on such a link
    assert by_partition[3, 1] == pytest.approx(2 / 3 * both_ways_s, rel=0.05)
    assert by_partition[(178, 178, 44), 1] == pytest.approx((1 - 44 / 400) * both_ways_s, rel=0.05)
    assert by_partition[None] == pytest.approx(both_ways_s, rel=0.05), "all are on a fast host"


def test_blocks_are_offered_of_large_variables():
    found = space(graph(variable("large", (2048, 256)), variable("small", (512, 64))), spec("a", "b"))
    cut = {u.name: {choice.partition for choice in u.choices} for u in found.units}
    assert (2, 2) in cut["large"]
    assert (2, 2) not in cut["small"]
    sparse = space(graph(variable("table", (99999, 64), sparse=True)), spec("a", "b"))
    assert (2, 2) not in {choice.partition for choice in sparse.units[0].choices}


def test_without_guidance_servers_are_drawn_evenly_and_groups_of_any_members():
    hosts = tuple(Host(name, name, bandwidth_gbps=0.1 if name == "c" else 1.0) for name in "abc")
    g = graph(*(variable(f"w{n}", (256, 16), order=n) for n in range(8)))
    shares, adjacent = [], []
    for is_guided in (True, False):
        found = Space(Domain.of(g, ResourceSpec(hosts)), communicators=("tcp",), is_guided=is_guided)
        drawn = sample(found, catalogue := Catalogue.of(found), 300, np.random.default_rng(0))
        table = drawn.table
        shares.append((table.server[drawn.is_served] == 2).mean())
        groups = [table.group[(table.strategy == k) & (table.group >= 0)] for k in range(len(drawn))]
        adjacent.append(all((np.diff(group) >= 0).all() for group in groups))
        assert not verify(drawn.strategy(0, found, catalogue), g, ResourceSpec(hosts), available_communicators=ALL)
    assert adjacent == [True, False]
    assert shares[0] < 0.2
    assert shares[1] == pytest.approx(1 / 3, abs=0.05)


def test_collectives_of_tensorflow_are_not_mixed_with_servers():
    families = space(graph(variable("v"), variable("w")), spec("a", "b")).families
    names = ["servers", "tcp", "horovod", "collective", "servers and tcp"]
    assert [family.name for family in families] == names


def test_the_size_counts_choices_servers_and_groups():
    g, d = graph(variable("w", (4,))), spec("a", "b")
    found = space(g, d, communicators=("collective",))
    assert 10**found.log10_size == pytest.approx(2)  # two servers, or two ways of groups: the larger family


# --- rules


def test_what_is_pinned_and_forbidden_is_so():
    g = graph(variable("embedding/table", LARGE, sparse=True), variable("dense", LARGE))
    found = space(g, spec("a", "b"), Rule.fix("embedding*=ps"), Rule.exclude("partition"), Rule.exclude("dense=ps"))
    choices = {unit.name: {choice.synchronizer for choice in unit.choices} for unit in found.units}
    assert choices == {"embedding/table": {"PS"}, "dense": {"AllReduce"}}
    assert all(choice.partition is None for unit in found.units for choice in unit.choices)
    assert [family.name for family in found.families] == ["servers and tcp"]


def test_a_partition_can_be_pinned_by_its_parts():
    found = space(graph(variable("w", LARGE)), spec("a", "b", "c", "d"), Rule.fix("w=partition=4x1"))
    assert {choice.partition for choice in found.units[0].choices} == {(4, 1)}


def test_a_space_that_rules_empty_names_them():
    with pytest.raises(SpaceEmpty, match=r"no strategy is left for `w`: --fix w=ps; --exclude ps") as caught:
        space(graph(variable("w")), spec("a", "b"), Rule.fix("w=ps"), Rule.exclude("ps"))
    assert caught.value.exit_code == 3
    assert caught.value.hint == "drop `--fix w=ps` or `--exclude ps`"


def test_rules_that_no_family_fits_are_named():
    rules = Rule.fix("v=ps"), Rule.fix("w=collective")
    with pytest.raises(SpaceEmpty, match="--fix v=ps; --fix w=collective"):
        space(graph(variable("v"), variable("w")), spec("a", "b"), *rules)


def test_of_several_rules_those_are_named_that_have_to_be_dropped():
    g, d = graph(variable("v"), variable("w")), spec("a", "b")
    with pytest.raises(SpaceEmpty) as caught:
        space(g, d, Rule.fix("v=tcp"), Rule.fix("w=ps"), Rule.exclude("w=ps"), Rule.exclude("partition"))
    assert caught.value.hint == "drop `--fix w=ps` or `--exclude w=ps`"
    with pytest.raises(SpaceEmpty) as caught:
        space(g, d, Rule.fix("v=ps"), Rule.exclude("v=ps"), Rule.fix("w=ps"), Rule.exclude("w=ps"))
    assert caught.value.hint.startswith("drop more than one of `--fix v=ps`, ")


@pytest.mark.parametrize("text", ["", "w", "=ps", "w="])
def test_what_pins_nothing_is_refused(text):
    with pytest.raises(UsageError, match="pins nothing"):
        Rule.fix(text)


def test_rules_are_written_as_they_are_given():
    assert str(Rule.exclude("partition=4x1")) == "--exclude partition=4x1"
    assert str(Rule.exclude("emb*=partition")) == "--exclude emb*=partition"
    assert Rule.exclude("partition=4x1").allows("w", Choice("PS", (2, 1)))
    assert not Rule.exclude("partition=4x1").allows("w", Choice("PS", (4, 1)))


# --- what is known of good strategies


def algorithm_10(sizes, count):
    """Literally, of one proposal."""
    loads, average, group, groups = [0.0] * count, sum(sizes) / count, 0, []
    for size in sizes:
        if loads[group] >= average and group < count - 1:
            group += 1
        loads[group] += size
        groups.append(group)
    return groups


@given(st.lists(st.integers(1, 100), min_size=1, max_size=30), st.integers(1, 8))
def test_groups_are_those_of_algorithm_10(sizes, count):
    drawn = adjacent_groups(np.array([sizes], np.float32), np.array([count], np.int32))
    assert drawn[0].tolist() == algorithm_10(sizes, count)


def test_servers_are_balanced_by_their_bandwidth():
    chance = np.random.default_rng(0)
    sizes = np.sort(chance.uniform(1, 10, size=(200, 60)).astype(np.float32))[:, ::-1]
    servers = balanced_servers(sizes, np.array([3, 1, 1], np.float32), chance)
    loads = np.stack([np.where(servers == host, sizes, 0).sum(1) for host in range(3)], 1)
    shares = loads / loads.sum(1, keepdims=True)
    assert shares.mean(0) == pytest.approx([0.6, 0.2, 0.2], abs=0.02)
    blind = chance.choice(3, p=[0.6, 0.2, 0.2], size=sizes.shape)
    scattered = np.where(blind == 0, sizes, 0).sum(1) / sizes.sum(1)
    assert shares[:, 0].std() < scattered.std() / 2
    assert len({tuple(row) for row in servers.tolist()}) == 200  # and yet all differ


def test_hosts_with_more_bandwidth_serve_more():
    g = graph(*(variable(f"w{n}", (40, 40), order=n) for n in range(30)))
    hosts = ResourceSpec((Host("slow", "slow", bandwidth_gbps=1), Host("fast", "fast", bandwidth_gbps=9)))
    found = space(g, hosts, Rule.fix("*=ps"))
    proposals = sample(found, Catalogue.of(found), 50, np.random.default_rng(0))
    assert (proposals.table.server == 1).mean() == pytest.approx(0.9, abs=0.05)
