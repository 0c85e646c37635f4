"""What a strategy costs, and which smaller clusters are worth a thought."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.errors import UsageError
from autodist.resource_spec import Host, Link, ResourceSpec
from autodist.search import (
    Bill,
    Catalogue,
    Cost,
    Measurement,
    RandomSearcher,
    Space,
    Time,
    Trial,
    Tuner,
    cluster_of,
    hosts_of,
    smaller_clusters,
    utility_of,
)
from autodist.simulator import Domain, EventSimulator
from autodist.strategies import PS, AllReduce, GraphConfig, PSSynchronizer, Strategy, VariableConfig
from tests.strategies.examples import graph, variable

G = graph(variable("w", (20, 20)))


def priced(**prices):
    return ResourceSpec(tuple(Host(name, name, price_per_hour=price) for name, price in prices.items()))


D = priced(a=1.0, b=2.0, c=4.0)


def on(*hosts, server=None, stations=()):
    synchronizer = PSSynchronizer(f"{server or hosts[0]}:CPU:0", transfer=tuple(f"{s}:CPU:0" for s in stations))
    replicas = tuple(f"{host}:CPU:0" for host in hosts)
    return Strategy(GraphConfig(replicas, "tcp"), (VariableConfig.whole("w", synchronizer),))


@pytest.mark.parametrize(
    ("strategy", "hosts", "price"),
    [
        (PS().build(G, D), ("a", "b", "c"), 7),
        (AllReduce(communicator="collective").build(G, D), ("a", "b", "c"), 7),
        (on("a"), ("a",), 1),
        (on("a", server="c"), ("a", "c"), 5),
        (on("a", stations=("b",)), ("a", "b"), 3),
    ],
)
def test_the_hosts_are_paid_that_hold_replicas_or_serve(strategy, hosts, price):
    assert hosts_of(strategy) == hosts
    assert Cost(D).of(strategy, 1800.0) == price / 2
    assert Time().of(strategy, 0.5) == 0.5


def test_an_epoch_or_a_thousand_steps_are_paid_for():
    strategy = on("a", "b")
    assert Bill(D, 10).of(strategy, 3.6) == pytest.approx(3 * 1000 * 3.6 / 3600)
    assert Bill(D, 10, examples=101).of(strategy, 3600.0) == 3 * 11
    assert (Bill(D, 10).unit, Bill(D, 10, 5).unit) == ("1,000 steps", "epoch")
    assert Bill(D, 10).of(strategy, None) is None
    assert Bill(ResourceSpec((Host("a", "a"),)), 10).of(strategy, 1.0) is None
    assert Bill(priced(a=0, b=0), 10).of(strategy, 1.0) == 0


def test_what_is_missing_or_unknown_is_told():
    some = ResourceSpec((Host("a", "a", price_per_hour=0), Host("b", "b"), Host("c", "c")))
    with pytest.raises(UsageError, match="there is no price for `b`, `c`") as caught:
        utility_of("cost", some)
    assert "`price_per_hour`" in caught.value.hint
    with pytest.raises(UsageError, match="no utility `beauty`, allowed: time, cost"):
        utility_of("beauty", D)


@pytest.mark.parametrize(("utility", "best"), [(Time(), 0), (Cost(D), 1)])
def test_the_best_trial_is_the_fastest_or_the_cheapest(utility, best):
    space = Space(Domain.of(G, D), communicators=("tcp", "collective"))
    catalogue = Catalogue.of(space)
    trials = [
        Trial(0, on("a", "b", "c"), Measurement((1.0,)), "me"),
        Trial(1, on("a"), Measurement((3.0,)), "me"),
        Trial(2, on("a", "b"), Measurement((2.9,)), "me"),
    ]
    searcher, simulator = RandomSearcher(space, catalogue), EventSimulator()
    tuner = Tuner(space, catalogue, searcher, lambda trials: simulator, None, utility=utility, trials=trials)
    assert tuner.best is trials[best]


# --- smaller clusters


def test_the_dearest_and_the_slowest_leave_first():
    hosts = (
        Host("fast", "fast", bandwidth_gbps=10, price_per_hour=2, chief=True),
        Host("dear", "dear", bandwidth_gbps=10, price_per_hour=9),
        Host("slow", "slow", bandwidth_gbps=0.1, price_per_hour=1),
    )
    parts = [[host.name for host in part.hosts] for part in smaller_clusters(ResourceSpec(hosts))]
    assert parts == [["fast", "slow"], ["slow"], ["fast", "dear"], ["fast"]]


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 3), st.floats(0.1, 9)), min_size=1, max_size=6))
def test_smaller_clusters_are_different_parts_that_are_nested(rows):
    names = [f"h{number}" for number in range(len(rows))]
    hosts = [
        Host(name, name, price_per_hour=price, cpus=cpus, bandwidth_gbps=gbps)
        for name, (price, cpus, gbps) in zip(names, rows, strict=True)
    ]
    parts = [frozenset(host.name for host in part.hosts) for part in smaller_clusters(ResourceSpec(tuple(hosts)))]
    assert len(set(parts)) == len(parts) <= 2 * (len(names) - 1)
    assert all(0 < len(part) < len(names) for part in parts)
    for size in range(1, len(names)):
        smaller = [part for part in parts if len(part) == size]
        larger = [part for part in parts if len(part) == size + 1] or [frozenset(names)]
        assert smaller
        assert all(any(part < other for other in larger) for part in smaller)


def test_a_part_of_a_cluster_has_its_links_and_a_chief():
    links = (Link("a", "b", 5.0), Link("b", "c", 3.0, latency_ms=7.0))
    part = cluster_of(ResourceSpec(D.hosts, links), ["c", "b"])
    assert [host.name for host in part.hosts] == ["b", "c"]
    assert part.chief.name == "b"
    assert part.link("c", "b").latency_ms == 7.0
    assert part.links == links[1:]
