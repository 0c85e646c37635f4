"""Neighbours: each is a strategy that fits, and differs from its parent in one thing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import ASPECTS, Catalogue, Rule, Space, sample
from autodist.search.searchers._moves import neighbours
from autodist.simulator import ALL_REDUCE, SERVER, Domain
from autodist.strategies import verify
from tests.strategies.examples import ALL, graph, graphs, spec, specs, variable


def setting(g, d, *rules, **options):
    space = Space(Domain.of(g, d), rules, communicators=ALL, **options)
    return space, Catalogue.of(space)


def children_of(space, catalogue, count=400, seed=0):
    chance = np.random.default_rng(seed)
    parents = sample(space, catalogue, count, chance)
    mates = parents.take(np.roll(np.arange(count, dtype=np.int32), 1))
    return parents, neighbours(parents, mates, space, catalogue, chance)


def rows(proposals, number):
    return proposals.table.take(np.flatnonzero(proposals.table.strategy == number))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_neighbours_are_strategies_that_fit(data):
    g, d = data.draw(graphs().filter(lambda g: g.trainable)), data.draw(specs())
    space, catalogue = setting(g, d, aspects=data.draw(st.sampled_from([None, ASPECTS])))
    _, children = children_of(space, catalogue, count=8, seed=data.draw(st.integers(0, 99)))
    for number in range(8):
        assert not verify(children.strategy(number, space, catalogue), g, d, available_communicators=ALL)


def test_most_neighbours_keep_most_of_their_parents():
    g = graph(*(variable(f"w{n}", (512, 64), order=n) for n in range(30)))
    parents, children = children_of(*setting(g, spec("a", "b", "c")))
    changed = (parents.choices != children.choices).sum(1)
    assert np.percentile(changed, 50) <= 1
    assert (changed > 5).mean() > 0.1, "of a mate, or of all large ones"
    assert (parents.fingerprints != children.fingerprints).mean() > 0.9


def test_a_server_is_changed_alone():
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(12)))
    parents, children = children_of(*setting(g, spec("a", "b", "c"), Rule.fix("*=ps"), Rule.fix("*=whole")))
    servers = [proposals.table.server.reshape(len(parents), 12) for proposals in (parents, children)]
    assert ((servers[0] != servers[1]).sum(1) == 1).mean() > 0.3


def test_servers_with_more_bandwidth_are_likelier():
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(12)))
    hosts = ResourceSpec((Host("slow", "slow", bandwidth_gbps=1), Host("fast", "fast", bandwidth_gbps=9)))
    space, catalogue = setting(g, hosts, Rule.fix("*=ps"))
    chance = np.random.default_rng(0)
    proposals = sample(space, catalogue, 50, chance)
    for _ in range(30):
        proposals = neighbours(proposals, proposals, space, catalogue, chance)
    assert (proposals.table.server == 1).mean() > 0.75


def test_where_groups_begin_is_changed():
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(12)))
    rules = (Rule.fix("*=allreduce"), Rule.fix("*=whole"), Rule.fix("*=collective"))
    parents, children = children_of(*setting(g, spec("a", "b"), *rules))
    groups = [proposals.table.group.reshape(len(parents), 12) for proposals in (parents, children)]
    begins = [np.diff(numbers, axis=1) != 0 for numbers in groups]
    assert ((begins[0] != begins[1]).sum(1) == 1).mean() > 0.05, "split or joined"
    assert (parents.choices == children.choices).all()


def test_coupled_variables_keep_one_server_and_groups_one_dtype():
    pairs = [variable(n, (64, 64), dtype="float64" if n in "cd" else "float32", order=k) for k, n in enumerate("abcd")]
    coupled = variable("e", (64, 64), coupled=("e", "f"), order=9), variable("f", (64, 64), coupled=("e", "f"), order=4)
    space, catalogue = setting(graph(*pairs, *coupled), spec("h", "i", "j"))
    _, children = children_of(space, catalogue)
    numbers = space.domain.number_of
    for number in range(len(children)):
        shards = rows(children, number)
        homes = [shards.server[shards.variable == numbers[name]].tolist() for name in "ef"]
        assert homes[0] == homes[1]
        for group in set(shards.group[shards.kind == ALL_REDUCE].tolist()):
            assert len(set(space.dtype_of[shards.variable[shards.group == group]].tolist())) == 1


@pytest.mark.parametrize("hosts", [1, 2])
def test_one_variable_has_neighbours_too(hosts):
    space, catalogue = setting(graph(variable("w", (4,))), spec(*"ab"[:hosts]))
    _, children = children_of(space, catalogue, count=50)
    served = children.table.kind == SERVER
    assert (children.table.server[served] < hosts).all()
    assert (children.table.server[~served] == -1).all()
