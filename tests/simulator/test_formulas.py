"""The formulas: by hand for small cases, and what holds for all strategies."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autodist.resource_spec import Host, Link, ResourceSpec
from autodist.simulator import (
    NAMES,
    AnalyticSimulator,
    Calibration,
    Domain,
    EventSimulator,
    Profile,
    global_features,
    messages,
    tabulate,
)
from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    Strategy,
    VariableConfig,
    traffic,
)
from tests.strategies.examples import fitting_strategies, graph, graphs, spec, specs, variable

BYTE_S = 8e-9  # a byte on a link of 1 Gbit/s
FREE = Calibration(
    **dict.fromkeys(("message_s", "copy_s", "gather_s", "horovod_s", "update_s_per_byte", "step_s", "contention"), 0.0),
    **dict.fromkeys(("servers", "tcp", "horovod", "collective"), 1.0),
)
SIMULATORS = [AnalyticSimulator(), EventSimulator()]
UNDISTURBED = [AnalyticSimulator(), EventSimulator(Calibration(contention=0.0))]


def strategy(d, *configs):
    return Strategy(GraphConfig(tuple(device.name for device in d.replicas), "horovod"), configs)


def served(name, host):
    return VariableConfig.whole(name, PSSynchronizer(f"{host}:CPU:0"))


def reduced(name, group, communicator="horovod"):
    return VariableConfig.whole(name, AllReduceSynchronizer(group, communicator=communicator))


def found(g, d, *configs):
    domain = Domain.of(g, d)
    return messages(tabulate([strategy(d, *configs)], domain), domain)


def test_a_server_equation_8_2():
    result = found(graph(variable("w", (5, 5))), spec("a", "b", "c"), served("w", "b"))
    assert result.transfer_s == pytest.approx([2 * (100 + 100) * BYTE_S])
    assert (result.overheads.tolist(), result.copies.tolist()) == ([2], [1])


def test_replicas_of_a_host_send_apart_unless_they_have_a_station():
    g, d = graph(variable("w", (5, 5))), spec("a", "b", cpus=3)
    station = VariableConfig.whole("w", PSSynchronizer("a:CPU:0", transfer=("b:CPU:0",)))
    apart, together = found(g, d, served("w", "a")), found(g, d, station)
    assert apart.transfer_s == pytest.approx([(300 + 100) * BYTE_S])
    assert together.transfer_s == pytest.approx([(100 + 100) * BYTE_S])
    assert (apart.overheads.tolist(), together.overheads.tolist()) == ([3], [1])


def test_a_group_is_one_message_over_the_slowest_link_equation_8_3():
    hosts = [Host(name, name, bandwidth_gbps=0.5 if name == "d" else 1.0) for name in "abcd"]
    g = graph(variable("v", (5, 5), order=1), variable("w", (5, 5), order=0))
    result = found(g, ResourceSpec(tuple(hosts)), reduced("v", 0), reduced("w", 0))
    assert result.transfer_s == pytest.approx([2 * 3 / 4 * 200 * 2 * BYTE_S])
    assert (result.overheads.tolist(), result.copies.tolist()) == ([4], [1])
    assert result.variable.tolist() == [1]  # in the order of the backward pass: `v`, whose gradient comes last


def test_features_are_the_largest_and_the_mean_of_each_kind():
    g, d = graph(variable("v", (5, 5)), variable("w", (10, 5)), variable("x", (5, 5))), spec("a", "b")
    domain = Domain.of(g, d)
    several = [
        strategy(d, served("v", "a"), served("w", "a"), reduced("x", 0)),
        strategy(d, *(reduced(n, 0) for n in "vwx")),
    ]
    features = dict(zip(NAMES, global_features(messages(tabulate(several, domain), domain), 2).T, strict=True))
    assert features["server_max_transfer_s"] == pytest.approx([400 * BYTE_S, 0])
    assert features["server_mean_transfer_s"] == pytest.approx([300 * BYTE_S, 0])
    assert features["collective_max_transfer_s"] == pytest.approx([100 * BYTE_S, 400 * BYTE_S])
    assert features["collective_mean_messages"].tolist() == [2, 2]


def test_latency_of_listed_links_is_added_to_each_message():
    names, g = "abc", graph(variable("w", (5, 5)))
    hosts = tuple(Host(name, name, bandwidth_gbps=1.0) for name in names)
    links = (Link("a", "b", 1.0, latency_ms=2.0), Link("a", "c", 1.0, latency_ms=5.0))
    listed, silent = ResourceSpec(hosts, links), ResourceSpec(hosts)
    for config, waits in ((served("w", "a"), 7e-3), (served("w", "b"), 2e-3), (reduced("w", 0), 3 * 5e-3)):
        assert found(g, listed, config).latency_s == pytest.approx([waits])
        assert not found(g, silent, config).latency_s.any()
        for simulator in UNDISTURBED:
            [there], [here] = (simulator.predict([strategy(d, config)], Domain.of(g, d)) for d in (listed, silent))
            assert there - here == pytest.approx(waits, rel=1e-3)


@pytest.mark.parametrize(
    ("slow", "factor"),
    # The ring is a, b, c, d: neither a and c nor b and d are neighbours.
    [(("a", "c"), 1), (("d", "b"), 1), (("b", "c"), 10), (("a", "d"), 10)],
)
@pytest.mark.parametrize("communicator", ["horovod", "collective"])
def test_a_ring_is_as_slow_as_its_slowest_link_and_no_other_equation_8_3(slow, factor, communicator):
    g, names = graph(variable("w", (250, 1000)), variable("table", (100, 25), sparse=True)), "abcd"
    hosts = tuple(Host(name, name, bandwidth_gbps=10.0) for name in names)
    d = ResourceSpec(hosts, (Link(*slow, 1.0, latency_ms=3.0),))
    result = found(g, d, reduced("w", 0, communicator), reduced("table", 1, communicator))
    # 1 MB goes 2 (w - 1) / w = 1.5 times over each link, at 10 Gbit/s in 1.2 ms. Of the table a row of 100 bytes and
    # its number of 8 for each of 128 examples, (w - 1) / w times.
    assert result.transfer_s == pytest.approx([1.2e-3 * factor, 128 * 108 * 0.75 * 8e-10 * factor])
    assert result.latency_s == pytest.approx([4 * 3e-3 if factor > 1 else 0] * 2)
    for simulator in UNDISTURBED:
        at_once = Profile(0.0, {"w": 0.0}, {"w": 0.0}, batch_size=128)
        domains = [Domain.of(g, ResourceSpec(hosts, links), profile=at_once) for links in (d.links, ())]
        [there], [here] = (simulator.predict([strategy(d, reduced("w", 0, communicator))], one) for one in domains)
        assert bool(there > 2 * here) is (factor > 1)


@pytest.mark.parametrize("slow", [("a", "c"), ("b", "c")])
def test_what_each_host_sends_to_each_other_takes_every_link(slow):
    g = graph(variable("table", (100, 25), sparse=True))
    d = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=10.0) for name in "abcd"), (Link(*slow, 1.0),))
    # A quarter of the rows goes from each to each other host: two at 10 Gbit/s, one at 1 Gbit/s.
    [transfer_s] = found(g, d, reduced("table", 0, "tcp")).transfer_s
    assert transfer_s == pytest.approx(32 * 108 * (8e-10 + 8e-10 + 8e-9))


@given(st.data())
def test_what_goes_to_and_from_servers_takes_the_time_of_its_bytes(data):
    g, d = data.draw(graphs()), data.draw(specs())
    one = data.draw(fitting_strategies(g, d))
    domain = Domain.of(g, d)
    result = messages(tabulate([one], domain), domain)
    homes = {c.variable for c in one.variables if isinstance(c.synchronizer, PSSynchronizer)}
    flows = [flow for flow in traffic(one, g, d).flows if flow.variable in homes]
    expected = sum(sum(flow.links.values()) for flow in flows) * BYTE_S
    assert result.transfer_s[result.is_served].sum() == pytest.approx(expected, rel=1e-4, abs=1e-12)


@given(st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_many_strategies_score_as_each_alone(data):
    g, d = data.draw(graphs()), data.draw(specs())
    several = [data.draw(fitting_strategies(g, d)) for _ in range(3)]
    domain = Domain.of(g, d)
    for simulator in SIMULATORS:
        together = simulator.predict(several, domain)
        alone = [simulator.predict([one], domain)[0] for one in several]
        assert together == pytest.approx(alone, rel=1e-4)


@given(st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_a_step_is_never_shorter_than_its_computation_nor_than_the_bytes_of_a_link(data):
    g, d = data.draw(graphs()), data.draw(specs())
    one = data.draw(fitting_strategies(g, d))
    ready = {v.name: data.draw(st.floats(0, 1)) for v in g.trainable}
    domain = Domain.of(g, d, profile=Profile(1.0, dict.fromkeys(ready, 0.0), ready, batch_size=128))
    for simulator in SIMULATORS:
        [step_s] = simulator.predict([one], domain)
        assert step_s >= domain.compute_s * (1 - 1e-6)
    pushed = {}
    for flow in traffic(one, g, d).flows[:-1]:
        config = one.config(flow.variable)
        for (_, receiver), size in flow.links.items() if isinstance(config.synchronizer, PSSynchronizer) else ():
            if config.synchronizer.destination.startswith(receiver):
                pushed[receiver] = pushed.get(receiver, 0.0) + size
    assert EventSimulator(FREE).predict([one], domain)[0] >= max(pushed.values(), default=0) * BYTE_S * (1 - 1e-4)


def test_gradients_leave_while_others_are_computed():
    """By hand: two gradients of 1 s each on the wire, ready at 1 and 2 s of a computation of 2 s."""
    size = int(1 / BYTE_S / 4)
    g = graph(variable("late", (size,), order=1), variable("early", (size,), order=0))
    d = spec("a", "b")
    # Half of the batch each: the times of the whole batch are twice those of a worker.
    profile = Profile(4.0, {"early": 4.0, "late": 4.0}, {"early": 2.0, "late": 4.0}, batch_size=128)
    domain = Domain.of(g, d, profile=profile)
    events = EventSimulator(FREE)
    one_server = strategy(d, served("late", "a"), served("early", "a"))
    two_servers = strategy(d, served("late", "b"), served("early", "a"))
    apart = strategy(d, reduced("late", 0), reduced("early", 1))
    together = strategy(d, reduced("late", 0), reduced("early", 0))
    # The values come while nobody needs them yet: "late" and "early" are needed at 2 s, and 2 s long on one link.
    assert events.predict([one_server, two_servers, apart, together], domain) == pytest.approx([3, 3, 3, 4], rel=1e-4)


def test_the_computation_waits_for_values_that_come_late():
    size = int(1 / BYTE_S / 4)
    g, d = graph(variable("w", (size,))), spec("a", "b")
    domain = Domain.of(g, d, profile=Profile(2.0, {"w": 0.0}, {"w": 2.0}, batch_size=128))
    # 1 s until the value is there, 1 s of computation, 1 s until the gradient is there.
    assert EventSimulator(FREE).predict([strategy(d, served("w", "a"))], domain) == pytest.approx([3], rel=1e-4)
    # The thesis' model: 2 s on the wire in all, longer than the computation.
    assert AnalyticSimulator(FREE).predict([strategy(d, served("w", "a"))], domain) == pytest.approx([2], rel=1e-4)


def test_one_host_computes_only():
    g, d = graph(variable("w", (50, 50))), spec("a")
    domain = Domain.of(g, d, profile=Profile(0.5, {"w": 0.0}, {"w": 0.5}, batch_size=128))
    for simulator in SIMULATORS:
        assert simulator.predict([strategy(d, served("w", "a"))], domain)[0] == pytest.approx(0.5, rel=2e-3)


def test_a_host_that_has_more_examples_is_waited_for():
    hosts = (Host("a", "a", cpus=3), Host("b", "b"))
    domain = Domain.of(graph(variable("w")), ResourceSpec(hosts), batch_size=10, profile=Profile(1, {}, {}, 10))
    assert domain.examples.tolist() == [8, 2]
    assert domain.compute_s == pytest.approx(0.3)  # 3 of 10, of the replica that has most
    assert np.all(domain.ready_s <= domain.compute_s + 1e-6)


@pytest.mark.parametrize("simulator", SIMULATORS, ids=lambda simulator: simulator.name)
def test_tiles_by_which_a_step_can_not_be_shared_are_never_chosen(simulator):
    """Nothing waits then, and yet it is not for nothing."""
    g, d = graph(variable("w", (64, 64))), spec("a", "b")
    table = tabulate([strategy(d, reduced("w", 0))] * 2, domain := Domain.of(g, d))
    impossible = table.replaced(waited_bytes=np.array([0.0, np.inf], np.float32))
    assert np.isfinite(simulator.score(impossible, domain, 2)).tolist() == [True, False]


@pytest.mark.parametrize("burst_kb", [0, 40, 150, 1000])
@pytest.mark.parametrize("waits", [1, 4, 9])
@pytest.mark.parametrize("compute_s", [0.0, 0.3, 3.0])
def test_exchanges_wait_for_what_a_token_bucket_lacks(burst_kb, waits, compute_s):
    """Against a bucket that is followed from one exchange to the next; 1 Mbit/s, 100 kB in each exchange."""
    g, rate, sent = graph(variable("w", (1,))), 1e6 / 8, 1e5
    hosts = tuple(Host(name, name, bandwidth_gbps=1e-3, burst_kb=burst_kb) for name in "ab")
    domain = Domain.of(g, ResourceSpec(hosts), floor_s=compute_s or 1e-9, profile=Profile(1.0, {}, {}, 128))
    table = tabulate([strategy(domain.spec, reduced("w", 0))], domain)
    tiled = table.replaced(waited_bytes=np.full(1, waits * sent, np.float32), waits=np.full(1, waits, np.float32))
    level, waited_s = burst_kb * 1e3, 0.0
    for number in range(waits):
        if number:
            level = min(burst_kb * 1e3, level + rate * compute_s / (waits + 1))
        waited_s += max(0.0, sent - level) / rate
        level = max(0.0, level - sent)
    [step_s] = AnalyticSimulator(FREE).score(tiled, domain, 1)
    assert step_s - domain.compute_s == pytest.approx(waited_s, rel=1e-3, abs=2e-3)
    [step_s] = EventSimulator(FREE).score(tiled, domain, 1)
    assert step_s >= waits * sent / rate - 1e-4, "no step is shorter than its bytes"
