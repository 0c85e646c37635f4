"""What differs between two strategies is named, aspect by aspect, and nothing else."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autodist.errors import UsageError
from autodist.strategies import (
    AllReduceSynchronizer,
    Difference,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    diff,
    explain,
)
from tests.strategies.examples import any_strategies, graph, graphs, spec, specs, variable

PS = PSSynchronizer("a:CPU:0")


def strategy(*configs, replicas=("a:CPU:0",), communicator="tcp"):
    return Strategy(GraphConfig(replicas, communicator), configs)


def found(a, b):
    return [(d.variable, d.shard, d.aspect, d.a, d.b) for d in diff(a, b).differences]


@pytest.mark.parametrize(
    ("changed", "aspect", "a", "b"),
    [
        (replace(PS, destination="b:CPU:0"), "destination", "a:CPU:0", "b:CPU:0"),
        (replace(PS, sync=False), "sync", "true", "false"),
        (replace(PS, staleness=2), "staleness", "0", "2"),
        (replace(PS, transfer=("a:CPU:0", "b:CPU:0")), "transfer", "none", "a:CPU:0, b:CPU:0"),
        (AllReduceSynchronizer(3), "synchronizer", "PS (a:CPU:0)", "AllReduce (group 3)"),
    ],
)
def test_aspects_of_a_shard(changed, aspect, a, b):
    one, other = (strategy(VariableConfig.whole("w", synchronizer)) for synchronizer in (PS, changed))
    assert found(one, other) == [("w", None, aspect, a, b)]
    assert found(other, one) == [("w", None, aspect, b, a)]


def test_aspects_of_variables_and_the_graph():
    whole = VariableConfig.whole("w", PS)
    assert found(strategy(whole), strategy(VariableConfig.whole("w", PS, "FP16"))) == [
        ("w", None, "compressor", "none", "FP16")
    ]
    split = VariableConfig("w", (ShardConfig(PS), ShardConfig(PS, "FP16")), (2, 1))
    assert found(strategy(whole), strategy(split)) == [("w", None, "partition", "whole", "2 x 1, 2 shards")]
    other = VariableConfig("w", (ShardConfig(PS), ShardConfig(PS)), (2, 1))
    assert found(strategy(split), strategy(other)) == [("w", 1, "compressor", "FP16", "none")]
    assert found(strategy(whole), strategy()) == [("w", None, "variable", "present", None)]
    assert found(strategy(), strategy(replicas=("a:CPU:0", "b:CPU:0"), communicator="horovod")) == [
        (None, None, "replicas", "a:CPU:0", "a:CPU:0, b:CPU:0"),
        (None, None, "communicator", "tcp", "horovod"),
    ]
    second = VariableConfig.whole("v", PS)
    assert found(strategy(whole, second), strategy(second, whole)) == [
        (None, None, "order of variables", "w, v", "v, w")
    ]


@settings(max_examples=60, deadline=None)
@given(any_strategies, any_strategies, st.text(max_size=3))
def test_nothing_differs_if_and_only_if_the_strategies_are_equal(a, b, builder):
    assert diff(a, a).is_same
    assert diff(a, replace(a, builder=builder)).is_same
    assert diff(a, b).is_same == (a == b) == (a.id == b.id)
    assert {(d.variable, d.shard, d.aspect) for d in diff(a, b).differences} == {
        (d.variable, d.shard, d.aspect) for d in diff(b, a).differences
    }


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_strategies_that_do_not_fit_are_told_all_the_same(data):
    g, d, s = data.draw(graphs()), data.draw(specs()), data.draw(any_strategies)
    names = [v.name for v in g.trainable]
    assume(names)
    configs = tuple(replace(config, variable=data.draw(st.sampled_from(names))) for config in s.variables)
    s = replace(s, variables=configs)
    told = explain(s, g, d)
    assert len(told.rows) == sum(len(config.shards) for config in configs)
    assert sum(host.sent_bytes for host in told.cost.hosts) == pytest.approx(
        sum(host.received_bytes for host in told.cost.hosts)
    )
    assert told.problems
    assert diff(s, s, g, d).sent_a == {host.host: host.sent_bytes for host in told.cost.hosts}


def test_totals_in_bytes():
    g, d = graph(variable("w", (5, 5))), spec("a", "b")
    replicas = ("a:CPU:0", "b:CPU:0")
    one, other = (strategy(VariableConfig.whole("w", PS, encoder), replicas=replicas) for encoder in (None, "FP16"))
    told = diff(one, other, g, d)
    assert (told.sent_a["b"] - told.sent_b["b"], told.sent_a["a"]) == (50, told.sent_b["a"])
    assert told.differences == (Difference("w", None, "compressor", "none", "FP16"),)
    for function in (lambda **given: diff(one, one, **given), lambda **given: explain(one, **given)):
        with pytest.raises(UsageError, match="there is no spec"):
            function(graph=g)
        with pytest.raises(UsageError, match="there is no graph"):
            function(spec=d)
