"""SFB and Poseidon on captured steps: whose gradients have factors can be told from ops only."""

from dataclasses import replace

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import SFB, BroadcastSynchronizer, Manual, Poseidon, PSSynchronizer, traffic, verify
from autodist.strategies._builders import BUILDERS, _collectives

from .examples import BOTH, graph, spec, variable


@pytest.fixture(autouse=True)
def _horovod(monkeypatch):
    monkeypatch.setattr(_collectives, "installed_communicators", lambda: BOTH)


@pytest.fixture(scope="module")
def captured():
    """A wide dense layer, a thin one, and a table."""
    sizes = {"table": [50, 128], "wide": [128, 1024], "bias": [1024], "thin": [1024, 3]}
    variables = {name: tf.Variable(tf.ones(size), name=name) for name, size in sizes.items()}

    def step(rows):
        with tf.GradientTape() as tape:
            hidden = tf.gather(variables["table"], rows) @ variables["wide"] + variables["bias"]
            loss = tf.reduce_mean(tf.square(hidden @ variables["thin"]))
        gradients = tape.gradient(loss, list(variables.values()))
        variables["table"].scatter_sub(gradients[0])
        for var, gradient in zip(list(variables.values())[1:], gradients[1:], strict=True):
            var.assign_sub(gradient)

    return capture(step, [tf.TensorSpec([8], tf.int32)], VariableNames()).graph


def kinds(strategy):
    return {config.variable: config.synchronizer.type for config in strategy.variables}


def fits(strategy, g, d):
    found = verify(strategy, g, d, available_communicators=(*BOTH, "tcp"))
    return [str(p) for p in found] == []


def test_sfb_broadcasts_what_has_factors(captured):
    d = spec("h0", "h1")
    strategy = SFB().build(captured, d)
    assert kinds(strategy) == {"table": "AllReduce", "wide": "Broadcast", "bias": "AllReduce", "thin": "Broadcast"}
    assert strategy.config("wide").synchronizer == BroadcastSynchronizer("horovod")
    assert fits(strategy, captured, d)


@pytest.mark.parametrize(
    ("batch_size", "wide", "thin"),
    # 2 K (P1-1) (M+N) <= 2 M N (P1+P2-2) / P2: 2304 K to 262144 for wide, 2054 K to 6144 for thin.
    [(2, "Broadcast", "Broadcast"), (3, "Broadcast", "PS"), (113, "Broadcast", "PS"), (114, "PS", "PS")],
)
def test_poseidon_takes_what_is_cheaper(captured, batch_size, wide, thin):
    d = spec("h0", "h1")
    strategy = Poseidon(batch_size=batch_size).build(captured, d)
    assert kinds(strategy) == {"table": "PS", "wide": wide, "bias": "PS", "thin": thin}
    assert fits(strategy, captured, d)


@pytest.mark.parametrize(
    ("batch", "replicas", "wide"),
    # As above, 113 examples of the worker that has the most of the batch are the most for `wide`.
    [
        (226, (1, 1), "Broadcast"),
        (227, (1, 1), "PS"),
        (8192, (1, 1), "PS"),
        (169, (1, 2), "PS"),
        (168, (1, 2), "Broadcast"),
    ],
)
def test_poseidon_knows_the_batch_of_the_graph(captured, batch, replicas, wide):
    d = ResourceSpec(tuple(Host(f"h{rank}", f"h{rank}", cpus=cpus) for rank, cpus in enumerate(replicas)))
    strategy = Poseidon().build(replace(captured, batch_size=batch), d)
    assert kinds(strategy)["wide"] == wide
    assert strategy.builder == "Poseidon()"


def test_poseidon_takes_servers_where_nobody_has_said_the_batch(captured):
    strategy = Poseidon().build(captured, spec("h0", "h1"))
    assert set(kinds(strategy).values()) == {"PS"}
    assert strategy.builder.startswith("Poseidon(): all variables on servers, because the number of examples")
    nothing_to_say = Poseidon().build(graph(variable("w")), spec("h0", "h1"))
    assert nothing_to_say.builder == "Poseidon()"


@pytest.mark.parametrize("hosts", [2, 3, 5])
@pytest.mark.parametrize("batch", [1, 30, 100, 1000, 8192])
@pytest.mark.parametrize("communicator", ["tcp", "horovod"])
def test_poseidon_never_sends_more_than_servers_would(square, hosts, batch, communicator):
    """Counted at the host that sends and gets the most; with 8192 examples, factors are 16 times the matrix."""
    g, d = replace(square, batch_size=batch), spec(*(f"h{rank}" for rank in range(hosts)))
    chosen, served, factored = (
        Poseidon(batch_size=size, part_bytes=2**16, communicator=communicator).build(g, d) for size in (None, 10**9, 1)
    )
    assert {kinds(one)["w"] for one in (served, factored)} == {"PS", "Broadcast"}
    busiest = [_busiest_bytes(one, g, d) for one in (chosen, served, factored)]
    assert busiest[0] <= 1.05 * min(busiest[1:])  # rows of the last worker, and parts of servers, are uneven


def _busiest_bytes(strategy, g, d):
    found = traffic(strategy, g, d)
    return max(found.sent[host] + found.received[host] for host in found.hosts)


@pytest.fixture(scope="module")
def square():
    """A dense layer of 512 x 512."""
    w = tf.Variable(tf.ones([512, 512]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(tape.gradient(loss, w))

    return capture(step, [tf.TensorSpec([8, 512])], VariableNames()).graph


@pytest.mark.parametrize(("length", "kind"), [(2, "Broadcast"), (200, "PS"), (None, "PS")])
def test_poseidon_counts_a_pair_of_factors_for_each_place_of_a_sequence(length, kind):
    """Of a length that tracing leaves open nobody knows how much the factors are."""
    w = tf.Variable(tf.ones([128, 128]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tensordot(x, w, 1)))
        w.assign_sub(tape.gradient(loss, w))

    g = capture(step, [tf.TensorSpec([8, length, 128])], VariableNames()).graph
    assert kinds(Poseidon(batch_size=4).build(g, spec("h0", "h1"))) == {"w": kind}


def test_poseidon_on_servers_cuts_parts_and_stops_at_the_hosts_cpu():
    g, d = graph(variable("w", (10, 256))), spec("h0", "h1", cpus=2)
    config = Poseidon(part_bytes=4096).build(g, d).config("w")
    assert config.partition == ((4, 4, 2), 1)
    assert all(isinstance(shard.synchronizer, PSSynchronizer) for shard in config.shards)
    assert {shard.synchronizer.transfer for shard in config.shards} == {("h0:CPU:0", "h1:CPU:0")}


def test_one_host_has_nobody_to_broadcast_to(captured):
    assert set(kinds(Poseidon(batch_size=1).build(captured, spec("h0"))).values()) == {"PS"}


@pytest.fixture(scope="module")
def awkward():
    """Global clipping couples two variables; the third's update looks at the whole of it, and it has a slot."""
    shapes = {"a": [64, 32], "b": [32, 48], "c": [48, 31], "slot": [48, 31]}
    a, b, c, slot = (tf.Variable(tf.ones(shape), name=name) for name, shape in shapes.items())

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ a @ b @ c))
        by_a, by_b, by_c = tape.gradient(loss, [a, b, c])
        (by_a, by_b), _ = tf.clip_by_global_norm([by_a, by_b], 1.0)
        a.assign_sub(by_a)
        b.assign_sub(by_b)
        slot.assign(0.9 * slot + by_c / tf.norm(by_c))
        c.assign_sub(slot)
        return loss

    return capture(step, [tf.TensorSpec([8, 64])], VariableNames()).graph


@pytest.mark.parametrize("hosts", [1, 2, 3])
@pytest.mark.parametrize("builder", [b for b in BUILDERS if b is not Manual], ids=lambda cls: cls.name)
def test_every_builder_fits_captured_steps(captured, awkward, builder, hosts):
    d = spec(*(f"h{rank}" for rank in range(hosts)), cpus=2)
    for g in (captured, awkward):
        for options in ({}, {"min_shard_bytes": 0}, {"max_shards": 7}, {"compressor": "FP16"}, {"part_bytes": 500}):
            if all(name in builder.__dataclass_fields__ for name in options):
                strategy = builder(**options).build(g, d)
                assert fits(strategy, g, d), options
    whole = {config.partition for config in builder().build(awkward, d).variables if config.variable in ("a", "b", "c")}
    assert whole == {None}
