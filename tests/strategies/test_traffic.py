"""Bytes per step by formula: by hand for small cases, and what holds for all strategies."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import (
    AllReduce,
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PartitionedPS,
    PSLoadBalancing,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
    shard_messages,
    traffic,
)
from tests.strategies.examples import fitting_strategies, graph, graphs, spec, specs, variable

STATE = 12  # the number of examples of a worker, and two numbers that stand for the batch


def strategy(d, *configs, communicator="horovod"):
    return Strategy(GraphConfig(tuple(device.name for device in d.replicas), communicator), configs)


def links(found, number=0):
    return dict(found.flows[number].links)


def test_a_ring_sends_twice_n_minus_1_pieces():
    d, g = spec("a", "b", "c", "d"), graph(variable("w", (10, 10)))
    found = traffic(AllReduce(communicator="collective").build(g, d), g, d)
    assert links(found) == {("a", "b"): 600, ("b", "c"): 600, ("c", "d"): 600, ("d", "a"): 600}
    found = traffic(AllReduce(communicator="horovod").build(g, d), g, d)
    assert links(found) == {("a", "d"): 600, ("b", "a"): 600, ("c", "b"): 600, ("d", "c"): 600}
    assert links(found, -1) == dict.fromkeys(links(found), 1.5 * STATE)


def test_our_own_all_reduce_goes_right_to_who_sums():
    d, g = spec("a", "b", "c", "d"), graph(variable("w", (10, 10)))
    found = traffic(AllReduce(communicator="tcp").build(g, d), g, d)
    assert links(found) == {(one, other): pytest.approx(200) for one in "abcd" for other in "abcd" if one != other}
    slow = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.25 if name == "d" else 1.0) for name in "abcd"))
    found = traffic(AllReduce(communicator="tcp").build(g, slow), g, slow)
    assert links(found)["d", "a"] == links(found)["a", "d"] == pytest.approx(400 / 3)
    assert links(found)["a", "b"] == pytest.approx(800 / 3)


def test_our_own_library_encodes_floats_for_slow_links():
    d = ResourceSpec((Host("a", "a"), Host("b", "b", bandwidth_gbps=0.25), Host("c", "c")))
    g = graph(variable("w", (100, 100)), variable("v", (4,)))
    whole, small = traffic(AllReduce(communicator="tcp").build(g, d), g, d).flows[:2]
    assert whole.received == pytest.approx({"a": 57_500, "b": 35_000, "c": 57_500})
    assert small.received["b"] == pytest.approx(16)
    horovod = traffic(AllReduce(communicator="horovod").build(g, d), g, d).flows[0]
    assert horovod.received["b"] == pytest.approx(4 / 3 * 40_000)
    (served,) = traffic(PartitionedPS(max_shards=1, communicator="tcp").build(g, d), g, d).flows[:1]
    assert sorted(served.links.values()) == pytest.approx([35_000, 35_000, 40_000, 40_000])


def test_a_server_gets_gradients_and_gives_values_and_its_own_worker_costs_nothing():
    d, g = spec("a", "b", "c"), graph(variable("w", (5, 5)))
    found = traffic(strategy(d, VariableConfig.whole("w", PSSynchronizer("b:CPU:0"))), g, d)
    assert links(found) == {("a", "b"): 100, ("b", "a"): 100, ("c", "b"): 100, ("b", "c"): 100}
    assert found.flows[0].sent == {"a": 100, "b": 200, "c": 100}
    assert found.flows[0].received == {"a": 100, "b": 200, "c": 100}


def test_every_replica_sends_its_gradient_unless_a_station_or_an_encoder_joins_them():
    d, g = spec("a", "b", cpus=3), graph(variable("w", (5, 5)))
    apart, station = PSSynchronizer("a:CPU:0"), PSSynchronizer("a:CPU:0", transfer=("b:CPU:1",))
    for synchronizer, compressor, pushed in ((apart, None, 300), (station, None, 100), (apart, "FP16", 50)):
        found = traffic(strategy(d, VariableConfig.whole("w", synchronizer, compressor)), g, d)
        assert links(found) == {("b", "a"): pushed, ("a", "b"): 100}


def test_a_host_that_only_serves_has_no_gradients():
    d, g = spec("a", "b", "c"), graph(variable("w", (5, 5)))
    served = Strategy(
        GraphConfig(("a:CPU:0", "b:CPU:0"), "tcp"), (VariableConfig.whole("w", PSSynchronizer("a:CPU:0")),)
    )
    assert links(traffic(served, g, d)) == {("b", "a"): 100, ("a", "b"): 100}


def test_staleness_and_asynchrony_change_no_bytes():
    d, g = spec("a", "b"), graph(variable("w"))
    found = [
        traffic(strategy(d, VariableConfig.whole("w", synchronizer)), g, d).links
        for synchronizer in (
            PSSynchronizer("a:CPU:0"),
            PSSynchronizer("a:CPU:0", staleness=3),
            PSSynchronizer("a:CPU:0", sync=False),
            PSSynchronizer("a:CPU:0", local_proxy=True),
        )
    ]
    assert all(one == found[0] for one in found)


def test_of_a_table_only_rows_travel():
    d, g = spec("a", "b"), graph(variable("table", (1_000_000, 8), sparse=True))
    served = strategy(d, VariableConfig.whole("table", PSSynchronizer("a:CPU:0")))
    found = traffic(served, g, d, batch_size=20, rows={"table": 60})
    pushed, asked, fetched = 30 * (32 + 8), 30 * 8, 30 * 32
    assert links(found) == {("b", "a"): pushed + asked, ("a", "b"): fetched}
    assert dict(found.rows) == {"table": 60}
    assert found.guessed == ()
    assert traffic(served, g, d, batch_size=20).guessed == ("table",)


def test_gathered_rows_go_around_the_ring():
    d, g = spec("a", "b", "c"), graph(variable("table", (1_000_000, 8), sparse=True))
    found = traffic(AllReduce(communicator="horovod").build(g, d), g, d, batch_size=7)
    row = 32 + 8  # examples: 3, 2, 2
    assert links(found) == {("a", "b"): 5 * row, ("b", "c"): 5 * row, ("c", "a"): 4 * row}
    found = traffic(AllReduce(communicator="collective").build(g, d), g, d, batch_size=27)
    assert links(found) == dict.fromkeys([("a", "b"), ("b", "c"), ("c", "a")], 2 * 10 * row)  # 9 padded to 10


def test_each_shard_goes_its_own_way():
    d, g = spec("a", "b"), graph(variable("w", (3, 10)))
    shards = (
        ShardConfig(PSSynchronizer("a:CPU:0")),
        ShardConfig(AllReduceSynchronizer(0, communicator="horovod")),
    )
    found = traffic(strategy(d, VariableConfig("w", shards, (2, 1))), g, d)
    assert [(flow.variable, flow.shard) for flow in found.flows] == [("w", 0), ("w", 1), (None, None)]
    assert links(found) == {("a", "b"): 80, ("b", "a"): 80}
    assert links(found, 1) == {("a", "b"): 40, ("b", "a"): 40}


def test_compressors_shrink_gradients_and_not_values():
    d, g = spec("a", "b"), graph(variable("w", (100,)))
    found = traffic(strategy(d, VariableConfig.whole("w", PSSynchronizer("a:CPU:0"), "FP16")), g, d)
    assert links(found) == {("b", "a"): 200, ("a", "b"): 400}


def test_factors_travel_instead_of_the_matrix():
    d, g = spec("a", "b"), graph(variable("w", (1000, 500)))
    found = traffic(strategy(d, VariableConfig.whole("w", BroadcastSynchronizer())), g, d, batch_size=10)
    assert links(found) == dict.fromkeys([("a", "b"), ("b", "a")], 5 * 1500 * 4)
    pushed = VariableConfig.whole("w", PSSynchronizer("a:CPU:0"), "SufficientFactors")
    found = traffic(strategy(d, pushed), g, d, batch_size=10)
    assert links(found) == {("b", "a"): 5 * 1500 * 4, ("a", "b"): 1000 * 500 * 4}


def test_factors_may_be_pushed_to_a_server():
    d, g = spec("a", "b"), graph(variable("w", (1000, 500)))
    pushed = VariableConfig.whole("w", PSSynchronizer("a:CPU:0"), "SufficientFactors")
    found = traffic(strategy(d, pushed), g, d, batch_size=10)
    assert links(found) == {("b", "a"): 5 * 1500 * 4, ("a", "b"): 1000 * 500 * 4}


def test_one_host_sends_nothing():
    d, g = ResourceSpec.local(workers=1, cpus=4), graph(variable("w"), variable("t", sparse=True))
    for builder in (AllReduce(communicator="collective"), PSLoadBalancing()):
        found = traffic(builder.build(g, d), g, d)
        assert (found.links, found.sent) == ({}, {"localhost": 0})


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_totals_are_sums_and_nothing_is_lost(data):
    g, d = data.draw(graphs()), data.draw(specs())
    s = data.draw(fitting_strategies(g, d))
    found = traffic(s, g, d, batch_size=data.draw(st.integers(1, 500)))
    assert sum(found.sent.values()) == pytest.approx(sum(found.received.values()))
    assert sum(found.sent.values()) == pytest.approx(sum(sum(flow.sent.values()) for flow in found.flows))
    for host in found.hosts:
        assert found.sent[host] == pytest.approx(sum(flow.sent.get(host, 0) for flow in found.flows))
        assert found.received[host] == pytest.approx(sum(flow.received.get(host, 0) for flow in found.flows))
    assert all(sender != receiver for sender, receiver in found.links)
    assert all(size > 0 for size in found.links.values())


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_more_examples_never_send_less(data):
    g, d = data.draw(graphs()), data.draw(specs())
    s = data.draw(fitting_strategies(g, d))
    size = data.draw(st.integers(1, 100))
    few, many = (traffic(s, g, d, batch_size=n * size * len(d.replicas)) for n in (1, 2))
    assert all(many.links[link] >= few.links[link] for link in few.links)


def test_shards_that_are_one_object_are_told_apart():
    g, shard = graph(variable("w", (10, 4))), ShardConfig(PSSynchronizer("a:CPU:0"))
    config = VariableConfig("w", (shard, shard, shard), (3, 1))
    sent = list(shard_messages(strategy(spec("a", "b"), config, communicator="tcp"), g, 8, {}))
    assert [(one.shard, one.shape) for one in sent] == [(0, (4, 4)), (1, (3, 4)), (2, (3, 4))]
    assert [one.size_bytes for one in sent] == [64, 48, 48]
