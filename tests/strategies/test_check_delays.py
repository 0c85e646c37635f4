"""Staleness of all-reduced gradients: which strategies may have it, and what they then cost."""

import pytest

from autodist.errors import StrategyError
from autodist.search.tilings import Tiled
from autodist.simulator import Domain, device_needs
from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    Strategy,
    VariableConfig,
    explain,
    get,
    retargeted_to,
    verify,
)

from .examples import ALL, graph, spec, variable

D, FOUR = spec("h0", "h1"), spec("h0", "h1", "h2", "h3")
G = graph(variable("a"), variable("b"))


def told(a, b):
    configs = (VariableConfig.whole("a", a), VariableConfig.whole("b", b))
    found = verify(Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "tcp"), configs), G, D, available_communicators=ALL)
    return [str(problem) for problem in found]


def later(staleness, group=0):
    return AllReduceSynchronizer(group, "tcp", staleness)


def test_all_variables_have_the_same():
    assert told(later(2), later(2)) == []
    reason = "a step applies all gradients of an earlier step together, and all of them are all-reduced"
    aspect = "staleness of all-reduced gradients"
    [one] = told(later(2), later(1))
    assert one == f"{aspect} is 2 for `a` but 1 for `b`, allowed: one for all variables ({reason})"
    [other] = told(later(2), PSSynchronizer("h0:CPU:0", staleness=2))
    assert other == f"{aspect} is 2 for `a` but none for `b`, allowed: one for all variables ({reason})"


@pytest.mark.parametrize("staleness", [-1, 1_000_001])
def test_it_has_bounds(staleness):
    assert f"staleness is {staleness}, allowed: 0 to 1000000" in told(later(staleness), later(staleness))[0]


def test_builders_refuse_what_has_no_meaning():
    with pytest.raises(StrategyError, match="`staleness` is -1, allowed: a whole number of at least 0"):
        get("AllReduce(staleness=-1)")
    with pytest.raises(StrategyError, match="`staleness` is 1 with one group, allowed: 0, or more `groups`"):
        Tiled(staleness=1)


@pytest.mark.parametrize("text", ["AllReduce(communicator='tcp', staleness=3)", "Tiled(groups=2, staleness=3)"])
def test_it_is_kept_by_files_and_on_other_clusters_and_told(text):
    strategy = get(text).build(G, FOUR)
    assert Strategy.from_json(strategy.to_json()) == strategy
    assert {s.delay for _, s in retargeted_to(strategy, G, D).synchronizers} == {3}
    assert {row.staleness for row in explain(strategy).rows} == {3}
    assert all("staleness=3" in row.synchronizer for row in explain(strategy).rows)
    assert "staleness" not in get(text.replace("staleness=3", "staleness=0")).build(G, FOUR).to_json()


def test_each_step_that_is_kept_takes_the_memory_of_its_gradients():
    large = graph(variable("a", shape=(1024, 1024)), variable("b", shape=(1024, 1024)))
    needs = {
        text: device_needs(get(text).build(large, FOUR), Domain.of(large, FOUR))
        for text in (
            "AllReduce(communicator='tcp')",
            "AllReduce(communicator='tcp', staleness=2)",
            "Tiled(dims=('*=1',), groups=2)",
            "Tiled(dims=('*=1',), groups=2, staleness=2)",
        )
    }
    whole, later_whole, tiled, later_tiled = needs.values()
    gradients = sum(v.size_bytes for v in large.trainable)
    assert later_whole - whole == pytest.approx(2 * gradients)
    assert later_tiled - tiled == pytest.approx(2 * gradients / 2)
