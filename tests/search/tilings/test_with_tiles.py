"""Strategies with tiles instead of others: over all hosts, or in groups, each of which has all parts."""

import keras
import pytest
import tensorflow as tf

from autodist.graph.layouts import exchanges_of_groups, tile_exchanges
from autodist.resource_spec import Host, ResourceSpec
from autodist.search._with_tiles_instead import with_tiles_instead
from autodist.search.tilings import tiled_cuts, with_tiles
from autodist.simulator import Domain, EventSimulator, memory_needs, tabulate
from autodist.strategies import check, compose, tile_costs, tiled_dims, traffic

from .keras_steps import captured, dense

layers = keras.layers
FOUR = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abcd"))
ALL_REDUCE = "AllReduce(communicator='tcp')"


def perceptron(rows):
    return dense(rows, 512, 512, 512, 512, 512)


@pytest.mark.parametrize(("rows", "groups"), [(128, 1), (512, 2)])
def test_groups_are_taken_where_activations_are_about_as_large_as_weights(rows, groups):
    """With few examples activations are small, and travel; with many, weights are, whose gradients travel then."""
    domain = Domain.of(perceptron(rows), FOUR)
    chosen = compose(ALL_REDUCE, domain.graph, FOUR)
    found = with_tiles_instead(chosen, domain, EventSimulator(), 0.1, may_group=True)
    assert found.groups_of_replicas == groups
    check(found, domain.graph, FOUR)
    without = with_tiles_instead(chosen, domain, EventSimulator(), 0.1, may_group=False)
    assert without is None or without.groups_of_replicas == 1


def test_what_is_not_computed_must_become_shorter_by_the_margin():
    domain = Domain.of(perceptron(128), FOUR)
    chosen = compose(ALL_REDUCE, domain.graph, FOUR)
    simulator = EventSimulator()
    found = with_tiles_instead(chosen, domain, simulator, 0.1, may_group=False)
    times_s = simulator.predict([chosen, found], domain) - domain.compute_s
    gain = 1 - times_s[1] / times_s[0]
    assert gain > 0.1
    for margin, is_taken in ((gain - 0.01, True), (gain + 0.01, False)):
        one = with_tiles_instead(chosen, domain, simulator, margin, may_group=False)
        assert (one is not None) == is_taken


def test_variables_that_are_left_whole_may_be_all_reduced():
    graph = perceptron(128)
    others = [compose(text, graph, FOUR) for text in ("PSLoadBalancing()", ALL_REDUCE)]
    found = list(with_tiles(graph, FOUR, others))
    assert len(found) == 2 * len(list(with_tiles(graph, FOUR, others[:1])))
    for first, second in zip(found[::2], found[1::2], strict=True):
        assert tiled_dims(first) == tiled_dims(second) != {}
        assert first != second


@pytest.mark.parametrize("more", ["", ", served=True"])
def test_what_groups_send_and_keep_is_told(more):
    """Of two groups of two, each host keeps a half of the weights, and sends the other group its gradient once.

    Or one sends the gradient, and the other one the new value.
    """
    graph = perceptron(512)
    whole, tiled = (
        compose(text, graph, FOUR) for text in (ALL_REDUCE, f"Tiled(dims=('*/kernel=1', '*=whole'), groups=2{more})")
    )
    weights = sum(v.size_bytes for v in graph.trainable if len(v.shape) > 1)
    sent = [flow.sent for flow in traffic(tiled, graph, FOUR).flows if flow.shard is not None]
    assert {host: sum(one.get(host, 0) for one in sent) for host in "abcd"} == dict.fromkeys("abcd", weights / 2)
    assert all(set(one) in ({"a", "c"}, {"b", "d"}) for one in sent)
    domain = Domain.of(graph, FOUR)
    kept = [memory_needs(tabulate([one], domain), domain, 1)[0][0] for one in (whole, tiled)]
    assert kept[0] - kept[1] >= weights / 2


def normalized(between):
    model = keras.Sequential([keras.Input((512,)), layers.Dense(512), between, layers.Dense(512)])
    specs = [tf.TensorSpec([512, 512])] * 2
    return captured(model, keras.losses.MeanSquaredError(), keras.optimizers.SGD(0.1), *specs)


@pytest.mark.parametrize("may_group", [True, False])
def test_groups_are_proposed_where_they_may_be(may_group):
    graph = normalized(layers.BatchNormalization())
    cuts = tiled_cuts(graph, FOUR, may_group=may_group)
    found = list(with_tiles(graph, FOUR, [compose(ALL_REDUCE, graph, FOUR)], cuts))
    assert any(one.groups_of_replicas > 1 for one in found) == may_group
    for one in found:
        check(one, graph, FOUR)


def test_what_groups_exchange_in_the_middle_of_a_step_counts():
    """Batch normalization needs sums over all examples and of their squares, on the way forth and back."""
    plain, normal = map(normalized, (layers.Activation("tanh"), layers.BatchNormalization()))
    between = exchanges_of_groups(normal, 512)
    more = {one.node for one in between} - {one.node for one in exchanges_of_groups(plain, 512)}
    assert len(more) >= 2
    assert all(one.size_bytes <= 4 * 512 for one in between)
    cost = tile_costs(compose("Tiled(dims=('*/kernel=1', '*=whole'), groups=2)", normal, FOUR), normal, 512)
    dims = {v.name: 1 for v in normal.trainable if v.name.endswith("/kernel")}
    assert cost.waits == len(tile_exchanges(normal, dims, 2, 256)) + len(between)
