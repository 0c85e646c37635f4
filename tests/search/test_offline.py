"""Ranking by a simulator alone: baselines are candidates, and a bound of time is kept."""

import time

import numpy as np
import pytest

from autodist.errors import UsageError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import (
    SEARCHERS,
    Catalogue,
    LocalSearcher,
    RandomSearcher,
    Rule,
    ScoringBudget,
    Space,
    rank_offline,
    sample,
)
from autodist.simulator import Domain, EventSimulator
from autodist.strategies import AllReduce, PSLoadBalancing
from tests.strategies.examples import ALL, graph, variable

HOSTS = tuple(Host(name, name, bandwidth_gbps=0.1 if name == "c" else 1.0) for name in "abc")
ALIKE = (Host("a", "a"), Host("b", "b"))


def searcher(kind=RandomSearcher, *rules, count=10, hosts=HOSTS, seed=0):
    g = graph(*(variable(f"w{n}", (256, 16 * (1 + n % 5)), order=n) for n in range(count)))
    space = Space(Domain.of(g, ResourceSpec(hosts)), rules, communicators=("tcp", "collective"))
    return kind(space, Catalogue.of(space), seed)


def baselines(found):
    builders = {"PSLoadBalancing": PSLoadBalancing(), "AllReduce": AllReduce(communicator="collective")}
    domain = found.space.domain
    return {name: builder.build(domain.graph, domain.spec) for name, builder in builders.items()}


@pytest.mark.parametrize("kind", SEARCHERS, ids=lambda kind: kind.name)
def test_proposals_and_baselines_are_ranked_together(kind):
    found = searcher(kind)
    known = baselines(found)
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(2000), known)
    times = [ranked.predicted_s for ranked in ranking.ranked]
    assert times == sorted(times)
    assert ranking.best is ranking.ranked[0]
    assert {r.origin for r in ranking.ranked} == {kind.name, *known}
    assert {r.origin: r.strategy for r in ranking.ranked if r.is_baseline} == known
    strategies = [ranked.strategy for ranked in ranking.ranked]
    assert EventSimulator().predict(strategies, found.space.domain) == pytest.approx(times)
    assert len({strategy.id for strategy in strategies}) == len(strategies)
    assert 1800 <= ranking.scored <= 2200


def test_a_baseline_that_is_predicted_fastest_wins():
    found = searcher(count=40, hosts=ALIKE)
    assert rank_offline(found, EventSimulator(), ScoringBudget(1), baselines(found)).best.is_baseline


def test_local_search_begins_with_what_users_know_and_improves_it():
    found = searcher(LocalSearcher, count=30)
    known = baselines(found)
    alone = rank_offline(searcher(LocalSearcher, count=30), EventSimulator(), ScoringBudget(400)).best.predicted_s
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(400), known)
    best_known_s = min(r.predicted_s for r in ranking.ranked if r.is_baseline)
    assert not ranking.best.is_baseline
    assert ranking.best.predicted_s < 0.8 * best_known_s
    assert ranking.best.predicted_s < 1.01 * alone, "what users know does not lead it astray"


def test_of_equals_the_one_that_users_know_is_the_best():
    rules = [Rule.fix("*=allreduce"), Rule.fix("*=whole"), Rule.fix("*=collective")]
    found = searcher(RandomSearcher, *rules, count=1)
    known = {"mine": rank_offline(found, EventSimulator(), ScoringBudget(10)).best.strategy}
    found.space.rules = ()
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(10), known)
    assert [ranked.origin for ranked in ranking.ranked] == ["mine"]


def test_what_may_break_the_rules_is_ranked_and_never_the_best():
    rules = (Rule.exclude("ps"), Rule.fix("w3=partition"))
    found = searcher(RandomSearcher, *rules, hosts=ALIKE)
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(5), baselines(found))
    assert ranking.ranked[0].origin == "PSLoadBalancing"
    assert ranking.best.origin == "random"


def test_a_baseline_that_obeys_the_rules_may_be_the_best():
    found = searcher(RandomSearcher, Rule.exclude("partition"), hosts=ALIKE)
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(5), baselines(found))
    assert ranking.ranked[0] == ranking.best
    assert ranking.best.origin == "PSLoadBalancing"


def test_the_same_seed_ranks_the_same_unless_time_decides():
    one, other = (rank_offline(searcher(seed=3), EventSimulator(), ScoringBudget(1500)) for _ in range(2))
    assert one == other


def test_the_search_ends_in_time_and_has_the_best_so_far():
    found = searcher()
    began = time.monotonic()
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(10_000_000, time_s=1.0))
    assert time.monotonic() - began < 30
    assert 0 < ranking.scored < 10_000_000
    assert ranking.best.origin == "random"


@pytest.mark.parametrize("options", [{"proposals": 0}, {"time_s": 0}, {"time_s": float("nan")}])
def test_efforts_that_are_none(options):
    with pytest.raises(UsageError, match=r"1 or more|a number above 0"):
        ScoringBudget(**options)


# --- a large graph


def bert_large(width=1024, layers=24):
    square, wide = (width, width), (width, 4 * width)
    layer = [square, (width,)] * 4 + [(width,)] * 4 + [wide, (4 * width,), wide[::-1], (width,)]
    shapes = [(30522, width), (512, width), (2, width), (width,), (width,), *layer * layers, square, *[(width,)] * 3]
    return graph(*(variable(f"w{n}", shape, order=len(shapes) - n) for n, shape in enumerate(shapes)))


@pytest.mark.slow
def test_a_graph_like_that_of_bert_large_on_16_hosts_is_ranked():
    spec = ResourceSpec(tuple(Host(f"h{n}", f"h{n}") for n in range(16)))
    space = Space(Domain.of(bert_large(), spec), communicators=ALL)
    found = RandomSearcher(space, Catalogue.of(space))
    ranking = rank_offline(found, EventSimulator(), ScoringBudget(1000), baselines(found))
    assert len(space.domain.variables) == 393
    assert ranking.scored == 1000


def test_one_group_is_drawn_as_well_as_many():
    found = searcher(RandomSearcher, Rule.fix("*=allreduce"), Rule.fix("*=whole"))
    table = sample(found.space, found.catalogue, 300, np.random.default_rng(0)).table
    counts = [len(set(table.group[table.strategy == number].tolist())) for number in range(300)]
    assert {1, 2, 3, 4} <= set(counts)
