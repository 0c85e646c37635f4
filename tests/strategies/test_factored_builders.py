"""SFB and Poseidon on captured steps: whose gradients have factors can be told from ops only."""

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.strategies import SFB, BroadcastSynchronizer, Poseidon, PSSynchronizer, verify
from autodist.strategies._builders import _collectives

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
    found = verify(strategy, g, d, available_communicators=BOTH)
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


def test_poseidon_without_horovod_serves_everything_and_says_so(captured, monkeypatch):
    monkeypatch.setattr(_collectives, "installed_communicators", lambda: ("collective",))
    strategy = Poseidon(batch_size=3).build(captured, spec("h0", "h1"))
    assert set(kinds(strategy).values()) == {"PS"}
    remark = "all variables on servers, for factors beside them need Horovod"
    assert strategy.builder == f"Poseidon(batch_size=3): {remark}"
    assert (
        kinds(Poseidon(batch_size=3, communicator="horovod").build(captured, spec("h0", "h1")))["wide"] == "Broadcast"
    )


def test_poseidon_on_servers_cuts_parts_and_stops_at_the_hosts_cpu():
    g, d = graph(variable("w", (10, 256))), spec("h0", "h1", cpus=2)
    config = Poseidon(part_bytes=4096).build(g, d).config("w")
    assert config.partition == ((4, 4, 2), 1)
    assert all(isinstance(shard.synchronizer, PSSynchronizer) for shard in config.shards)
    assert {shard.synchronizer.transfer for shard in config.shards} == {("h0:CPU:0", "h1:CPU:0")}


def test_one_host_has_nobody_to_broadcast_to(captured):
    assert set(kinds(Poseidon(batch_size=1).build(captured, spec("h0"))).values()) == {"PS"}
