"""Strategies that do not fit into the hosts' memory are not tried."""

from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import SpaceEmpty
from autodist.graph import Role
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import (
    SEARCHERS,
    Catalogue,
    Measurement,
    MemoryFilter,
    RandomSearcher,
    Rule,
    ScoringBudget,
    SearchBudget,
    SearchPlan,
    Space,
    Tuner,
    known_strategies,
    rank_offline,
    sample,
)
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator, peak_needs, tabulate
from autodist.strategies import AllReduce, PSLoadBalancing
from tests.strategies.examples import graph, variable

SIZE = 256 * 64 * 4
ALL = 10 * SIZE


def slot(name):
    return replace(variable(f"slot of {name}", (256, 64), order=-1, role=Role.SLOT), owners=(name,))


def space(small_bytes, *rules, names="abc", communicators=("tcp", "collective")):
    """Ten variables with a slot each; the last host has so much memory, the others enough."""
    variables = [variable(f"w{n}", (256, 64), order=n) for n in range(10)]
    g = graph(*variables, *(slot(v.name) for v in variables))
    hosts = [Host(name, name, memory_gb=small_bytes / 1e9 if name == names[-1] else None) for name in names]
    return Space(Domain.of(g, ResourceSpec(tuple(hosts))), rules, communicators=communicators)


def need_of(strategy, domain):
    return peak_needs(tabulate([strategy], domain), domain, 1)[0]


@pytest.mark.parametrize("kind", SEARCHERS, ids=lambda kind: kind.name)
def test_only_what_fits_is_ranked(kind):
    found = space(2.5 * ALL)
    domain = found.domain
    everywhere = AllReduce(communicator="collective").build(domain.graph, domain.spec)
    served = PSLoadBalancing().build(domain.graph, domain.spec)
    assert need_of(everywhere, domain).tolist() == [4 * ALL + 2 * SIZE] * 3  # and what one update works in
    searcher = kind(found, Catalogue.of(found))
    ranking = rank_offline(searcher, EventSimulator(), ScoringBudget(2000), {"AllReduce": everywhere})
    assert ranking.ranked
    assert {ranked.origin for ranked in ranking.ranked} == {kind.name}
    for ranked in ranking.ranked:
        assert need_of(ranked.strategy, domain)[2] <= 2.5 * ALL
    assert need_of(served, domain)[2] > 2.5 * ALL


def test_scores_beyond_the_limit_are_worse_the_larger_the_need_is():
    found = space(2.5 * ALL)
    room, catalogue = MemoryFilter(found.domain), Catalogue.of(found)
    scored = []

    def score(proposals):
        scored.append((room.load(proposals.table, len(proposals)), room.score_by(AnalyticSimulator())(proposals)))
        return scored[-1][1]

    drawn = RandomSearcher(found, catalogue).ask(score, 400, 400)
    [(load, scores)] = scored
    assert scores[load > 1].min() > 1e12 > scores[load <= 1].max()
    assert (np.argsort(load[load > 1]) == np.argsort(scores[load > 1])).all()
    fitting = room.fitting(drawn)
    assert 0 < len(fitting.scores) < len(drawn.scores)
    assert room.load(fitting.proposals.table, len(fitting.scores)).max() <= 1


def test_a_host_is_drawn_as_server_as_long_as_it_has_room():
    found = space(2.7 * ALL, Rule.fix("*=ps"))
    drawn = sample(found, Catalogue.of(found), 100, np.random.default_rng(0))
    assert MemoryFilter(found.domain).load(drawn.table, 100).max() <= 1
    shares = [(drawn.table.server == rank).mean() for rank in range(3)]
    assert 0 < shares[2] < 0.6 * min(shares[:2]), "and less than its link could carry"


def tuner(found, measured, trials=8):
    class Measurer:
        def measure(self, number, strategy, hopeless_s):
            measured.append(strategy)
            return Measurement((1.0,))

    catalogue, plan = Catalogue.of(found), SearchPlan(proposals=300, qualified=30, batch=4)
    searcher = RandomSearcher(found, catalogue)
    return Tuner(found, catalogue, searcher, lambda trials: EventSimulator(), Measurer(), SearchBudget(trials), plan)


def test_what_does_not_fit_is_not_measured():
    found, measured = space(2.5 * ALL), []
    tuner(found, measured).run()
    assert len(measured) == 8
    assert max(need_of(strategy, found.domain)[2] for strategy in measured) <= 2.5 * ALL


def test_where_nothing_fits_the_need_and_the_limit_are_named():
    found, measured = space(0.5 * ALL), []
    message = r"none fits .*; the smallest: it needs 0\.00131 GB on `c`, whose `memory_gb` is 0\.00032768"
    with pytest.raises(SpaceEmpty, match=message) as caught:
        tuner(found, measured).run()
    assert caught.value.exit_code == 3
    assert "memory_gb" in caught.value.hint
    assert measured == []
    with pytest.raises(SpaceEmpty, match=message):
        rank_offline(RandomSearcher(found, Catalogue.of(found)), EventSimulator(), ScoringBudget(300))


def test_a_search_in_which_only_a_baseline_fits_has_that():
    found = space(2.5 * ALL, Rule.fix("*=allreduce"))
    measured = []
    served = PSLoadBalancing().build(found.domain.graph, ResourceSpec(found.domain.spec.hosts[:2]))
    best = tuner(found, measured).run({"served": served})
    assert [trial.strategy for trial in [best]] == measured == [served]


def test_baselines_that_do_not_fit_say_why():
    known = dict(known_strategies(space(2.5 * ALL).domain))
    reason = known["AllReduce(communicator='collective')"]
    assert reason == "it needs 0.00275 GB on `c`, whose `memory_gb` is 0.0016384"
    unlimited = dict(known_strategies(space(99 * ALL).domain))
    assert not isinstance(unlimited["AllReduce(communicator='collective')"], str)
