"""Strategies that were made in Python of the wrong things: said in words, never a traceback of ours."""

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.errors import StrategyError
from autodist.registry import split_call
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    check,
    diff,
    explain,
    traffic,
    verify,
)

from .examples import graph, spec, variable

G = graph(variable("a"), variable("b", sparse=True))
D = spec("h0", "h1")
HOME = PSSynchronizer("h0:CPU:0")

junk = st.one_of(
    st.none(),
    st.sampled_from([math.nan, math.inf, b"x", object(), type, len, PSSynchronizer, HOME, 10**5000, -(2**70), "\x00"]),
    st.booleans(),
    st.integers(-3, 3),
    st.text(max_size=3),
    st.lists(st.just("a"), max_size=1),
    st.dictionaries(st.just("a"), st.just(1), max_size=1),
    st.tuples(st.just("a"), st.integers(0, 2)),
)
devices = st.sampled_from(["h0:CPU:0", "h1:CPU:0", "h2:CPU:0"]) | junk
words = st.sampled_from(["horovod", "collective", "tcp", "ring", "tree"]) | junk
synchronizers = st.one_of(
    st.builds(PSSynchronizer, devices, junk, junk, junk, st.tuples(devices) | junk),
    st.builds(AllReduceSynchronizer, junk, words, words),
    st.builds(BroadcastSynchronizer, words),
    junk,
)
shards = st.builds(ShardConfig, synchronizers, st.just("TopK(ratio=nan)") | junk) | junk
named = st.sampled_from("ab") | junk
configs = st.builds(VariableConfig, named, st.tuples(shards) | junk, st.tuples(junk, junk) | junk)
nonsense = st.builds(
    Strategy, st.builds(GraphConfig, st.tuples(devices) | junk, words) | junk, st.tuples(configs | junk) | junk, junk
)


@settings(max_examples=100, deadline=None)
@given(nonsense | junk)
def test_nonsense_is_refused_in_words(strategy):
    found = [str(problem) for problem in verify(strategy, G, D)]
    assert found
    with pytest.raises(StrategyError):
        check(strategy, G, D)
    for use in (lambda: explain(strategy, G, D), lambda: traffic(strategy, G, D), lambda: diff(strategy, strategy)):
        with contextlib.suppress(StrategyError):  # where nothing has a wrong type, they tell what they can
            use()


def test_all_wrong_types_are_told_at_once_with_their_variable_and_place():
    stale = VariableConfig.whole("a", PSSynchronizer("h0:CPU:0", staleness=math.nan))
    strategy = Strategy(GraphConfig(["h0:CPU:0"], "tcp"), (stale, VariableConfig("b", (HOME,))))
    with pytest.raises(StrategyError) as caught:
        check(strategy, G, D)
    why = "(a strategy is made of value objects, tuples, texts and whole numbers)"
    assert caught.value.message.splitlines() == [
        "the strategy has 3 mistakes:",
        f"  - `graph.replicas` is ['h0:CPU:0'], allowed: a tuple {why}",
        f"  - `a`: `variables[0].shards[0].synchronizer.staleness` is nan, allowed: an int {why}",
        f"  - `b`: `variables[1].shards[0]` is {repr(HOME)[:57]}..., allowed: a ShardConfig {why}",
    ]


def test_staleness_is_no_larger_than_what_a_server_can_keep():
    served = (VariableConfig.whole("a", PSSynchronizer("h0:CPU:0", staleness=2**31)), VariableConfig.whole("b", HOME))
    found = verify(Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "tcp"), served), G, D)
    assert [(p.variable, p.aspect, p.given, p.allowed) for p in found] == [
        ("a", "staleness", "2147483648", "up to 1000000")
    ]


def test_long_texts_are_split_at_once():
    name = f"FP16{' ' * 100_000}x"
    assert split_call(f"  {name} (a)  ") == (name, "a")
    assert split_call(f"{name}(a))x")[0] == f"{name}(a))x"
