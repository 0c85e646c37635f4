"""What a strategy needs on each host: what moves when a variable moves, and the bytes of a real model."""

from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import Role, VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.search.tilings import Tiled
from autodist.simulator import SERVER, Domain, host_needs, memory_needs, peak_needs, serving_needs, tabulate
from autodist.strategies import (
    PS,
    AllReduce,
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
)
from tests.strategies.examples import fitting_strategies, graph, graphs, spec, specs, variable


def needs(strategies, domain):
    return memory_needs(tabulate(strategies, domain), domain, len(strategies))


def slot_of(name, shape):
    return replace(variable(f"slot of {name}", shape, order=-1, role=Role.SLOT), owners=(name,))


def mixed(d, *configs):
    return Strategy(GraphConfig(tuple(device.name for device in d.replicas), "horovod"), configs)


def reduced(name, group=0):
    return VariableConfig.whole(name, AllReduceSynchronizer(group, communicator="horovod"))


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_strategies_are_counted_one_by_one(data):
    g, d = data.draw(graphs()), data.draw(specs())
    domain = Domain.of(g, d)
    several = [data.draw(fitting_strategies(g, d)) for _ in range(3)]
    together = needs(several, domain)
    assert together.shape == (3, d.world_size)
    for row, strategy in zip(together, several, strict=True):
        assert row == pytest.approx(needs([strategy], domain)[0])


@given(specs().filter(lambda d: d.world_size > 1), st.integers(0, 4), st.integers(1, 50), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_a_variable_that_moves_to_a_server_frees_the_others_of_its_slots_and_buffer(d, rank, width, num_slots):
    rank, shape, size = rank % d.world_size, (width, 10), 40 * width
    slots = [slot_of("w", shape) for _ in range(num_slots)]
    domain = Domain.of(graph(variable("w", shape), variable("v", (7, 7)), *slots), d)
    server = VariableConfig.whole("w", PSSynchronizer(d.hosts[rank].cpu_devices[0].name))
    before, after = needs([mixed(d, reduced("w"), reduced("v", 1)), mixed(d, server, reduced("v", 1))], domain)
    senders = len(d.replicas) - len(d.hosts[rank].replica_devices)
    for host, change in enumerate(after - before):
        # A server gets one message of each replica elsewhere; what is reduced has one buffer on each host.
        expected = (senders - 1) * size if host == rank else -(num_slots + 1) * size
        assert change == expected


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_what_serving_needs_is_what_a_host_needs_more_than_without(data):
    g, d = data.draw(graphs().filter(lambda g: g.trainable)), data.draw(specs())
    domain = Domain.of(g, d)
    table = tabulate([data.draw(fitting_strategies(g, d))], domain)
    nobody = table.replaced(server=np.full(len(table), -1, np.int32))
    served = np.flatnonzero(table.kind == SERVER)
    more = np.zeros(d.world_size)
    np.add.at(more, table.server[served], serving_needs(table, domain)[served, table.server[served]])
    assert memory_needs(table, domain, 1)[0] == pytest.approx(memory_needs(nobody, domain, 1)[0] + more)


def test_half_of_a_variable_brings_half_of_its_slots():
    d = spec("a", "b", "c")
    domain = Domain.of(graph(variable("w", (10, 10)), slot_of("w", (10, 10))), d)
    halves = tuple(ShardConfig(PSSynchronizer(f"{host}:CPU:0")) for host in "ab")
    [cut] = needs([mixed(d, VariableConfig("w", halves, (2, 1)))], domain)
    gradient, fetched = 400, 400
    at_server = 200 + 200 + 200 + 2 * 200  # its half, the slot's, what it fetches of the other, two messages
    assert cut.tolist() == [gradient + at_server] * 2 + [gradient + fetched]


def test_a_table_on_a_server_costs_the_others_only_the_rows_that_they_take():
    d = spec("a", "b")
    domain = Domain.of(graph(variable("table", (1000, 10), sparse=True)), d, batch_size=8)
    apart, together = needs([PS().build(domain.graph, d), mixed(d, reduced("table"))], domain)
    assert together.tolist() == [40_000 + 4 * (40 + 8) + 8 * (40 + 8)] * 2
    assert apart[1] == 4 * 40 + 4 * (40 + 8)
    assert apart[0] > 40_000


@pytest.fixture(scope="module")
def captured():
    model = keras.Sequential([keras.layers.Input((20,)), keras.layers.Dense(300, "relu"), keras.layers.Dense(5)])
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    found = capture(step, [tf.TensorSpec((64, 20)), tf.TensorSpec((64, 5))], VariableNames())
    arrays = {v.path: v.numpy() for v in (*model.variables, *optimizer.variables)}
    return found.graph, sum(a.nbytes for a in arrays.values()), sum(v.numpy().nbytes for v in model.trainable_variables)


def test_the_bytes_are_those_of_a_real_model_and_its_optimizer(captured):
    g, state, trained = captured
    assert state > 3 * trained, "Adam has two slots"
    domain = Domain.of(g, ResourceSpec.local(workers=2, cpus=1), batch_size=64)
    builders = (AllReduce(communicator="horovod"), PS())
    [everywhere, served] = needs([builder.build(g, domain.spec) for builder in builders], domain)
    rest = domain.activation_bytes + trained  # and gradients
    assert everywhere == pytest.approx([state + trained + rest] * 2, rel=1e-6)
    small = domain.other_bytes
    assert 0 < small < 100
    assert served == pytest.approx([state + trained + rest, trained + small + rest], rel=1e-6)


def test_activations_are_what_the_backward_pass_still_needs(captured):
    g, _, _ = captured
    domains = [Domain.of(g, ResourceSpec.local(workers=n, cpus=1), batch_size=64) for n in (1, 2, 4)]
    one, half, quarter = (domain.activation_bytes for domain in domains)
    assert (half, quarter) == (one / 2, one / 4)
    inputs, hidden, outputs = (64 * width * 4 for width in (20, 300, 5))
    assert inputs + 2 * hidden <= one <= inputs + 3 * hidden + 8 * outputs


def test_graphs_that_are_only_described_have_no_activations():
    domain = Domain.of(graph(variable("w")), spec("a"))
    assert domain.activation_bytes == 0
    assert np.isinf(domain.memory_bytes).all()


def test_at_the_peak_the_largest_update_works():
    d = spec("a", "b")
    domain = Domain.of(graph(variable("w", (10, 10)), variable("v", (5, 10)), slot_of("w", (10, 10))), d)
    server = VariableConfig.whole("w", PSSynchronizer("a:CPU:0"))
    served, everywhere = mixed(d, server, reduced("v")), mixed(d, reduced("w"), reduced("v", 1))
    table = tabulate([served, everywhere], domain)
    peaks = peak_needs(table, domain, 2)
    assert (peaks - memory_needs(table, domain, 2)).tolist() == [[800, 200], [800, 800]]
    assert list(host_needs(served, domain).values()) == peaks[0].tolist()


def test_what_is_gathered_is_kept_whole_besides_the_parts_that_come(captured):
    g, _, _ = captured
    domain = Domain.of(g.with_batch_size(8192), ResourceSpec.local(workers=2, cpus=1))
    [kernel] = [v for v in g.trainable if v.shape == (20, 300)]
    tiled = Tiled(dims=(f"{kernel.name}=1", "*=whole")).build(domain.graph, domain.spec)
    table = tabulate([tiled], domain)
    kept = kernel.size_bytes * (1 + 1 / 2)
    assert table.kept_bytes.sum() == kept, "activations of so many examples are larger than a kernel"
    without = table.replaced(kept_bytes=np.zeros(len(table), np.float32))
    assert peak_needs(table, domain, 1) - peak_needs(without, domain, 1) == pytest.approx(kept)
