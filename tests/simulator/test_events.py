"""The event simulation against one that follows message by message, in plain Python."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autodist.carriers import JOINED_BYTES
from autodist.graph import Role, Variable
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Catalogue, Space, sample
from autodist.simulator import SERVER, AnalyticSimulator, Calibration, Domain, EventSimulator, Profile, tabulate
from autodist.strategies import PACK_BYTES, AllReduce, GraphConfig, PSLoadBalancing, Strategy
from tests.strategies.examples import BOTH, graph, graphs, variable

CALIBRATION = Calibration(
    message_s=2e-4,
    stream_s=3e-5,
    wake_s=5e-5,
    tensor_s=4e-5,
    copy_s=0.0,
    gather_s=9e-4,
    horovod_s=7e-4,
    update_s_per_byte=3e-9,
    step_s=0.0,
    contention=0.2,
    servers=1.15,
    tcp=1.2,
    horovod=1.1,
    collective=1.3,
)


@st.composite
def domains(draw):
    g = draw(graphs().filter(lambda g: g.trainable))
    hosts = [
        Host(
            f"h{n}",
            f"h{n}",
            cpus=draw(st.integers(1, 3)),
            bandwidth_gbps=draw(st.sampled_from([0.1, 1.0, 5.0])),
            cores_shared_by=draw(st.sampled_from([1, 2])),
            burst_kb=draw(st.sampled_from([0, 0, 2])),
        )
        for n in range(draw(st.integers(1, 4)))
    ]
    times = st.floats(0, 1e-3)
    needed, ready = ({v.name: draw(times) for v in g.trainable} for _ in range(2))
    step_s = max([*ready.values(), *needed.values()])
    return Domain.of(g, ResourceSpec(tuple(hosts)), profile=Profile(step_s, needed, ready, batch_size=128))


def test_where_all_workers_were_measured_at_once_that_time_counts_and_not_the_profile_s():
    g = graph(*(variable(f"w{n}", order=n) for n in range(3)))
    spec = ResourceSpec(tuple(Host(name, name) for name in "abcd"))
    profile = Profile(0.4, {"w0": 0.2, "w1": 0.1, "w2": 0.0}, {"w0": 0.3, "w1": 0.35, "w2": 0.4}, batch_size=128)
    alone, together = (Domain.of(g, spec, batch_size=128, profile=profile, floor_s=s) for s in (None, 0.5))
    assert (alone.compute_s, together.compute_s) == pytest.approx((0.1, 0.5))
    assert together.ready_s == pytest.approx(5 * alone.ready_s), "eight workers on two cores compute so much longer"
    assert together.needed_s == pytest.approx(5 * alone.needed_s)
    shared = ResourceSpec(tuple(Host(name, name, cores_shared_by=4) for name in "abcd"))
    supposed = Domain.of(g, shared, batch_size=128, profile=profile)
    assert supposed.compute_s == pytest.approx(0.4), "hosts that share cores compute one after the other"
    assert Domain.of(g, shared, batch_size=128, profile=profile, floor_s=0.5).compute_s == pytest.approx(0.5)
    for share, times in ((0.5, 2.0), (0.25, 1.0), (0.125, 1.0)):
        divided = Domain.of(g, shared, batch_size=128, profile=replace(profile, cores_share=share))
        assert divided.compute_s == pytest.approx(0.1 * times), "a profile with fewer threads has taken longer"
    strategy = PSLoadBalancing(communicator="tcp").build(g, spec)
    times = [float(EventSimulator(CALIBRATION).predict([strategy], domain)[0]) for domain in (alone, together)]
    assert times[1] > 0.5 > times[0] > 0.1


def message_share(shard, shards):
    """How many messages a shard is: what is packed shares some with the rest that its server gets."""
    if not shard["is_packed"]:
        return shard["messages"]
    together = [s for s in shards if s["is_packed"] and s["kind"] == SERVER and s["server"] == shard["server"]]
    needed = math.ceil(sum(s["summed_bytes"] for s in together) / PACK_BYTES)
    return 0.1 + 0.9 * min(needed, len(together)) / len(together)


def server_messages(shard, shards, domain):
    """For each worker elsewhere: what its gradients and its reads take on its link, and on that of the server."""
    between = domain.seconds_per_byte[shard["server"]]
    fastest = min(second for second in between if second > 0) if len(between) > 1 else 0.0
    for worker, replicas in enumerate(domain.replicas):
        if worker != shard["server"] and replicas:
            seconds = domain.coded_s_per_byte if shard["is_coded"] else domain.seconds_per_byte
            second = seconds[shard["server"], worker] * CALIBRATION.servers
            senders = 1 if shard["is_joined"] else replicas
            by_example = (shard["gathered_by_example"] + shard["asked_by_example"]) * domain.examples[worker]
            pushed = senders * shard["summed_bytes"] + shard["gathered_bytes"] + by_example
            read = shard["read_bytes"] + shard["read_by_example"] * domain.examples[worker]
            messages = (1 if shard["is_packed"] else senders) * message_share(shard, shards)
            message_s = CALIBRATION.stream_s if shard["has_own_connections"] else CALIBRATION.message_s
            own = fastest / between[worker]
            yield worker, *((pushed * s + messages * message_s, read * s) for s in (second, second * own))


def collectives(shards, domain):
    """For each: its last variable, what it takes on every link, and the bytes that are updated."""
    hosts = len(domain.replicas)
    groups = {}
    for number, shard in enumerate(shards):
        joins = shard["group"] >= 0 and not (shard["is_direct"] and shard["summed_bytes"] > JOINED_BYTES)
        groups.setdefault(shard["group"] if joins else f"alone {number}", []).append(shard)
    for members in groups.values():
        seconds = 0.0
        for m in members:
            by_byte = domain.coded_s_per_byte if m["is_coded"] else domain.seconds_per_byte
            divided = domain.divided_coded_s_per_byte if m["is_coded"] else domain.divided_s_per_byte
            ring = (hosts - 1) / hosts * max(by_byte[k, (k + 1) % hosts] for k in range(hosts))
            gathering = max(sum(row) for row in by_byte) / hosts if m["is_direct"] else ring
            seconds += (m["gathered_bytes"] * hosts + m["gathered_by_example"] * domain.examples.sum()) * gathering
            seconds += m["summed_bytes"] * (divided if m["is_direct"] else 2 * ring)
        gathers = sum(m["gathered_bytes"] + m["gathered_by_example"] > 0 for m in members)
        if members[0]["is_direct"]:  # AutoDist's own library: to who sums, and from there
            seconds = seconds * CALIBRATION.tcp + 2 * CALIBRATION.stream_s
        elif members[0]["has_own_connections"]:
            seconds = seconds * CALIBRATION.horovod + hosts * CALIBRATION.message_s + CALIBRATION.horovod_s
        else:
            seconds *= CALIBRATION.collective
            seconds += hosts * CALIBRATION.message_s + gathers * CALIBRATION.gather_s
        yield max(m["variable"] for m in members), seconds, sum(m["size_bytes"] for m in members)


def followed(shards, domain):
    """Seconds of a step: each link is free or busy, and takes what comes to it in turn."""
    hosts = len(domain.replicas)
    pushing, reading, following = (np.zeros((len(domain.variables), 2 * hosts)) for _ in range(3))
    update_s, parts_by_server = np.zeros(len(domain.variables)), [Counter() for _ in domain.variables]
    for shard in (s for s in shards if s["kind"] == SERVER):
        number = shard["variable"]
        parts_by_server[number][shard["server"]] += 1
        fetching = following if shard["is_proxied"] else reading
        for worker, at_worker, at_server in server_messages(shard, shards, domain):
            pushing[number, [worker, hosts + shard["server"]]] += at_worker[0], at_server[0]
            fetching[number, [hosts + worker, shard["server"]]] += at_worker[1], at_server[1]
        update_s[number] = max(update_s[number], shard["size_bytes"] * CALIBRATION.update_s_per_byte)
    for number, seconds, size in collectives([s for s in shards if s["kind"] != SERVER], domain):
        pushing[number] += seconds if hosts > 1 else 0
        update_s[number] = max(update_s[number], size * CALIBRATION.update_s_per_byte)

    at_once_s = np.tile([h.burst_kb * 8e-6 / h.bandwidth_gbps for h in domain.spec.hosts], 2)
    busy_s, wait_s = np.zeros(2 * hosts), 0.0
    for number in np.argsort(domain.needed_s, kind="stable"):
        busy_s += reading[number]
        come_s = busy_s - at_once_s
        late = [come_s[link] for link in range(2 * hosts) if reading[number, link]]
        wait_s = max(wait_s, max(late, default=0.0) - domain.needed_s[number])
    while_sending_s = max(busy_until(domain.compute_s, domain.ready_s, pushing[:, k]) for k in range(2 * hosts))
    busy = min(1.0, while_sending_s / max(domain.compute_s, 1e-9))
    slowed = 1 + CALIBRATION.contention * busy
    ready_s, end_s = domain.ready_s * slowed, domain.compute_s * slowed + wait_s
    free_s, updated_s = np.zeros(2 * hosts), np.zeros(len(domain.variables))
    for number in np.argsort(ready_s, kind="stable"):
        for link in np.flatnonzero(pushing[number]):
            free_s[link] = max(free_s[link], ready_s[number] + wait_s) + pushing[number, link]
            come_s = max(free_s[link] - at_once_s[link], ready_s[number] + wait_s)
            updated_s[number] = max(updated_s[number], come_s + update_s[number])
    for number in np.argsort(ready_s, kind="stable"):
        # Of a variable in parts the first value goes between the updates of the first and of the last part.
        parts = max([1, *parts_by_server[number].values()])
        first_s = updated_s[number] - pushing[number].max() * (1 - 1 / parts) / 2
        for link in np.flatnonzero(following[number]):
            free_s[link] = max(free_s[link], first_s) + following[number, link]
            last_s = max(following[number, link] / parts - at_once_s[link], 0)
            end_s = max(end_s, free_s[link] - at_once_s[link], updated_s[number] + last_s)
    all_s = (reading + pushing + following).sum(0).max()
    called_s = domain.compute_s + calling_s(shards, domain)
    return max(end_s, updated_s.max(initial=0), all_s, called_s) + handling_s(shards, domain)


def busy_until(end_s, ready_s, sent_s):
    """How long a link is busy before a time, if it takes in turn what is ready."""
    busy_s, free_s = 0.0, 0.0
    for number in np.argsort(ready_s, kind="stable"):
        begin_s = max(free_s, ready_s[number])
        free_s = begin_s + sent_s[number]
        busy_s += max(0.0, min(free_s, end_s) - begin_s)
    return busy_s


def handling_s(shards, domain):
    """Statistics and losses where hosts share cores: each is a message over AutoDist's library, others join them."""
    shared = max(host.cores_shared_by for host in domain.spec.hosts)
    if shared == 1 or len(domain.replicas) == 1:
        return 0.0
    own = [s["has_own_connections"] if s["kind"] == SERVER else s["is_direct"] for s in shards]
    tensors = sum(not is_own and s["messages"] > 0 for s, is_own in zip(shards, own, strict=True))
    if any(shard["kind"] != SERVER and not shard["is_direct"] for shard in shards):
        joined_s = 4 * (ring_s(domain) if rings(shards) else CALIBRATION.message_s)
    else:
        joined_s = domain.state_messages * CALIBRATION.wake_s
    return shared * (joined_s + tensors * CALIBRATION.tensor_s)


def calling_s(shards, domain):
    """The processors' time for the rings of TensorFlow's collectives, where hosts share them."""
    shared = max(host.cores_shared_by for host in domain.spec.hosts)
    return shared * len(rings(shards)) * ring_s(domain) if shared > 1 else 0.0


def rings(shards):
    """The groups that TensorFlow's collectives carry."""
    return {
        shard["group"] if shard["group"] >= 0 else f"alone {number}"
        for number, shard in enumerate(shards)
        if shard["kind"] != SERVER and not shard["has_own_connections"]
    }


def ring_s(domain):
    """A host's calls for a ring, each as long as 2.4 tensors."""
    return 2 * (len(domain.replicas) - 1) * 2.4 * CALIBRATION.tensor_s


@given(st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_strategies_at_once_take_what_each_takes_message_by_message(data):
    domain = data.draw(domains())
    space = Space(domain, communicators=("tcp", *BOTH))
    table = sample(space, Catalogue.of(space), 4, np.random.default_rng(data.draw(st.integers(0, 99)))).table
    if data.draw(st.booleans()):  # as servers of earlier versions did
        small = table.summed_bytes <= data.draw(st.sampled_from([200, 4000]))
        table = table.replaced(is_packed=(table.kind == SERVER) & (table.summed_bytes > 0) & small)
    columns = {name: getattr(table, name).tolist() for name in table.__dataclass_fields__}
    shards = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    expected = [followed([s for s in shards if s["strategy"] == number], domain) for number in range(4)]
    assert EventSimulator(CALIBRATION).score(table, domain, 4) == pytest.approx(expected, rel=1e-4, abs=1e-9)


def test_records_of_earlier_versions_keep_the_costs_of_what_carried_them():
    """TensorFlow's servers took a whole call for each message, unless it was packed; streams take far less."""
    g, spec = graph(variable("large", (512, 512)), variable("small", order=1)), ResourceSpec.local(workers=3)
    now = PSLoadBalancing().build(g, spec)
    then = replace(now, graph=GraphConfig(now.graph.replicas, "queue", PACK_BYTES))
    table = tabulate([now, Strategy.from_json(then.to_json())], Domain.of(g, spec))
    assert table.messages.tolist() == [1.0, 1.0, 1.0, 1.0]
    assert table.has_own_connections.tolist() == [True, True, False, False]
    assert table.is_packed.tolist() == [False, False, False, True]
    new, old = EventSimulator().predict([now, then], Domain.of(g, spec))
    assert old > new


def test_carriers_of_the_same_bytes_over_equal_links_are_not_one():
    """Over a ring every message waits for all hosts, and each is a call; AutoDist's library needs two of its own."""
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(20)))
    domain = Domain.of(g, ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abcd")))
    builders = [AllReduce(chunk_size=1, communicator=name) for name in ("tcp", "horovod", "collective")]
    strategies = [builder.build(g, domain.spec) for builder in builders]
    for simulator in (EventSimulator(), AnalyticSimulator()):
        tcp, horovod, collective = simulator.predict(strategies, domain)
        assert horovod - tcp > 20 * 2 * Calibration().message_s
        assert collective == pytest.approx(horovod, rel=0.2)
        slower = replace(simulator, calibration=Calibration(tcp=2.0))
        assert slower.predict(strategies, domain)[0] > tcp
        assert slower.predict(strategies, domain)[1:] == pytest.approx([horovod, collective]), "constants of their own"


@pytest.mark.parametrize("ready", [0.0, 0.25, 1.0])
def test_only_what_is_sent_during_the_computation_slows_it_down(ready):
    """Of a gradient that is ready in the end nothing is; the links are busy for longer than the computation."""
    g = graph(variable("w", (4096, 4096)))
    spec = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1) for name in "ab"))
    domain = Domain.of(g, spec, batch_size=2, profile=Profile(0.2, {"w": 0.0}, {"w": 0.2 * ready}, batch_size=2))
    strategy = AllReduce(communicator="tcp").build(g, domain.spec)
    busy, calm = (EventSimulator(Calibration(contention=share)).predict([strategy], domain)[0] for share in (0.5, 0.0))
    assert calm > 20 * domain.compute_s
    assert float(busy - calm) == pytest.approx(0.5 * (1 - ready) * ready * domain.compute_s, abs=1e-6)


def test_values_that_arrive_during_the_computation_do_not_slow_it_down():
    g = graph(variable("w", (4096, 4096)))
    spec = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "ab"))
    domain = Domain.of(g, spec, batch_size=2, profile=Profile(2.0, {"w": 1.9}, {"w": 2.0}, batch_size=2))
    strategy = PSLoadBalancing().build(g, domain.spec)
    busy, calm = (EventSimulator(Calibration(contention=share)).predict([strategy], domain)[0] for share in (0.5, 0.0))
    assert busy == calm


def test_only_over_rings_do_gradients_wait_for_their_group():
    """The first gradient is ready long before the last one, and its bytes take as long as the computation."""
    g = graph(*(variable(f"w{n}", (1024, 1024), order=n) for n in range(2)))
    spec = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1) for name in "ab"))
    profile = Profile(1.0, {"w0": 0.0, "w1": 0.0}, {"w0": 0.1, "w1": 1.0}, batch_size=2)
    domain = Domain.of(g, spec, batch_size=2, profile=profile)
    for carrier, waits in (("tcp", False), ("horovod", True), ("collective", True)):
        strategies = [AllReduce(size, carrier, chunk_bytes=1 << 30).build(g, domain.spec) for size in (2, 1)]
        together, alone = EventSimulator(Calibration(contention=0)).predict(strategies, domain)
        assert together - alone > 0.4 * domain.compute_s if waits else together == alone, carrier


def test_calls_of_rings_take_processors_that_hosts_share():
    """Many small rings over fast links: processors are the limit, unless each host has its own."""
    g = graph(*(variable(f"w{n}", (64, 64), order=n) for n in range(50)))
    ready = {f"w{n}": 0.5 for n in range(50)}
    times = {}
    for shared in (1, 8):
        hosts = tuple(Host(f"h{n}", f"h{n}", bandwidth_gbps=10.0, cores_shared_by=shared) for n in range(8))
        domain = Domain.of(g, ResourceSpec(hosts), profile=Profile(0.5, ready, ready, batch_size=128), floor_s=0.5)
        strategies = [
            AllReduce(chunk_size=1, communicator=name).build(g, domain.spec) for name in ("collective", "horovod")
        ]
        times[shared] = EventSimulator().predict(strategies, domain)
    assert times[1][0] == pytest.approx(times[1][1], rel=0.1)
    calls = 50 * 2 * 7 * 8
    assert times[8][0] - times[8][1] > calls * 2 * Calibration().tensor_s - 0.1


def test_a_token_bucket_passes_at_once_what_it_holds():
    """A gradient ends earlier by that, and a small one takes no time; but no step is shorter than its bytes take."""
    small, large = graph(variable("w", (64, 64))), graph(variable("w", (1024, 1024)))
    spec = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.8) for name in "ab"))  # 100 KB in a millisecond
    bucket = replace(spec, hosts=tuple(replace(host, burst_kb=200) for host in spec.hosts))
    events = EventSimulator(Calibration(tcp=1.0, contention=0.0, step_s=0.0, update_s_per_byte=0.0))

    def step_s(g, spec, compute_s):
        profile = Profile(compute_s, {"w": 0.0}, {"w": compute_s}, batch_size=2)
        domain = Domain.of(g, spec, batch_size=2, profile=profile)
        return float(events.predict([AllReduce(communicator="tcp").build(g, spec)], domain)[0])

    sent_s = 2 * 2**20 * 4 / 2 / 1e8
    assert step_s(large, spec, 0.2) == pytest.approx(0.1 + sent_s, rel=0.01)
    assert step_s(large, bucket, 0.2) == pytest.approx(0.1 + sent_s - 0.002, rel=0.01)
    assert step_s(large, bucket, 0.0) == pytest.approx(sent_s, rel=0.01), "tokens come at the bandwidth's rate"
    assert step_s(small, bucket, 0.2) == pytest.approx(0.1, rel=1e-3)
    assert step_s(small, spec, 0.2) > 0.1 + 2 * 64 * 64 * 4 / 2 / 1e8


def test_each_statistic_of_a_batch_is_a_message():
    statistics = [Variable(f"mean{n}", f"m{n}", (8,), "float32", Role.STATISTIC) for n in range(40)]
    plain = graph(variable("w", (64, 64)))
    normalized = replace(plain, variables=(*plain.variables, *statistics))
    for shared, more in ((3, 3), (1, 0)):
        spec = ResourceSpec(tuple(Host(name, name, cores_shared_by=shared) for name in "abc"))
        strategy = PSLoadBalancing().build(plain, spec)
        few, many = (float(EventSimulator().predict([strategy], Domain.of(g, spec))[0]) for g in (plain, normalized))
        assert many - few == pytest.approx(more * 40 * Calibration().wake_s, rel=1e-3), "a core is free unless shared"


def test_parts_score_as_the_whole(monkeypatch):
    g = graph(*(variable(f"w{n}", (200, 30), sparse=n == 3, order=n) for n in range(8)))
    space = Space(Domain.of(g, ResourceSpec.local(workers=3)), communicators=("tcp", *BOTH))
    drawn = sample(space, Catalogue.of(space), 30, np.random.default_rng(0))
    whole = EventSimulator().score(drawn.table, space.domain, 30)
    monkeypatch.setattr("autodist.simulator.formulas._events._CELLS", 7 * 6 * 8)
    np.testing.assert_allclose(EventSimulator().score(drawn.table, space.domain, 30), whole, rtol=1e-5)
