"""Between groups of replicas, one of them applies the updates of a part for all, as a parameter server."""

import random
from collections import Counter
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import (
    AllReduceSynchronizer,
    Strategy,
    TileSynchronizer,
    compose,
    retargeted_to,
    verify,
)
from autodist.testing import InProcessCluster, certify_in_process

from . import single
from .test_groups import FOUR, TWO_OF_TWO, assert_same, dense, prepared, with_the_highest
from .test_tiled import convolutions, drawn_dims, perceptron, recurrent, transformer


@pytest.mark.parametrize(
    ("build", "spec"),
    [
        (dense, FOUR),
        *(pytest.param(build, FOUR, marks=pytest.mark.slow) for build in (perceptron, convolutions, transformer)),
        pytest.param(recurrent, FOUR, marks=pytest.mark.slow),
        pytest.param(dense, TWO_OF_TWO, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "__name__", "hosts" if value is FOUR else "hosts of two"),
)
def test_weights_of_all_groups_are_those_of_one_device(build, spec):
    model, data, step, losses, after = prepared(build, (8, 7, 1))
    dims = drawn_dims(model, random.Random(build.__name__), 2)
    with InProcessCluster(step, data[0], f"Tiled(dims={dims!r}, groups=2, served=True)", spec) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        assert_same(cluster.values(), after)
        for worker in cluster.workers:
            assert not [point for point in worker.graph.points if "/shard_" in (point.variable or "")]


def test_only_the_server_of_a_part_has_its_slots():
    _, data, step, _, _ = prepared(dense, (8,))
    text = "Tiled(dims=('*dense*/kernel=1', '*=whole'), groups=2, served=True)"
    with InProcessCluster(step, data[0], text, FOUR) as cluster:
        cluster.step(*data[0])
        values = cluster.values()
    slots = {name: len(found) for name, found in values.items() if "momentum" in name and "/shard_" in name}
    parts = {name: len(found) for name, found in values.items() if "kernel/shard_" in name}
    assert slots
    assert set(slots.values()) == {1}
    assert set(parts.values()) == {2}


def table():
    """A table of words, cut by rows: groups send the server rows and their numbers."""
    numbers = np.random.default_rng(0)
    words = tf.Variable(numbers.normal(size=(6, 4)), name="words")
    scale = tf.Variable(numbers.normal(size=(4, 6)), name="scale")

    def step(ids, y):
        with tf.GradientTape() as tape:
            found = tf.reduce_sum(tf.nn.embedding_lookup(words, ids), 1) @ scale
            loss = tf.reduce_mean(tf.reduce_sum((found - y) ** 2, -1))
        rows, gradient = tape.gradient(loss, (words, scale))
        words.scatter_sub(tf.IndexedSlices(0.01 * rows.values, rows.indices))
        scale.assign_sub(0.01 * gradient)
        return loss

    return step


@pytest.mark.parametrize(
    "dims", ["('words=0', 'scale=0')", pytest.param("('words=1', 'scale=1')", marks=pytest.mark.slow)]
)
def test_rows_of_tables_go_to_servers(dims):
    numbers = np.random.default_rng(1)
    batches = [[numbers.integers(0, 6, (n, 3)), numbers.normal(size=(n, 6))] for n in (8, 5, 1)]
    certify_in_process(table, batches, f"Tiled(dims={dims}, groups=2, served=True)", FOUR, rtol=1e-9)


def test_several_slots_and_weights_that_are_bounded_after_their_update():
    batches = [[np.random.default_rng(k).normal(size=(7, 4))] for k in range(3)]
    text = "Tiled(dims=('weight=1',), groups=2, served=True)"
    certify_in_process(with_the_highest, batches, text, FOUR, rtol=1e-10)
    certify_in_process(bounded, batches, text, FOUR, rtol=1e-10)


def bounded():
    weight = tf.Variable(np.random.default_rng(0).normal(size=(4, 6)), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        weight.assign_sub(0.3 * tape.gradient(loss, weight))
        weight.assign(tf.clip_by_value(weight, -0.5, 0.5))
        return loss

    return step


def returning_the_gradient(weight, loss, gradient):
    weight.assign_sub(0.1 * gradient)
    return loss, tf.norm(gradient)


def returning_the_new_value(weight, loss, gradient):
    weight.assign_sub(0.1 * gradient)
    return loss, tf.reduce_sum(weight)


@pytest.mark.parametrize("end", [returning_the_gradient, returning_the_new_value])
def test_steps_that_need_more_than_the_next_value_are_refused(end):
    weight = tf.Variable(tf.ones([4, 6]), name="weight")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        return end(weight, loss, tape.gradient(loss, weight))

    with pytest.raises(StrategyError, match=r"`weight` for all, but op .* needs its gradient or its new") as caught:
        InProcessCluster(step, [np.ones((8, 4), np.float32)], "Tiled(dims=('weight=1',), groups=2, served=True)", FOUR)
    assert "`served=True`" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["clipnorm", "global_clipnorm"])
def test_updates_that_look_at_all_parts_are_refused(name):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
    optimizer = keras.optimizers.SGD(0.1, **{name: 0.5})
    optimizer.build(model.trainable_variables)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    text = "Tiled(dims=('*kernel=1',), groups=2, served=True)"
    with pytest.raises(StrategyError, match="but each of its parts is updated by what others are"):
        InProcessCluster(step, [np.ones((8, 4), np.float32)], text, FOUR)


def test_servers_are_found_again_and_as_many_on_each_host():
    _, data, step, _, _ = prepared(dense, (8,))
    graph = capture(step, single.specs_of(data[0]), VariableNames()).graph
    strategy = compose("Tiled(dims=('*dense*/kernel=1', '*=whole'), groups=2, served=True)", graph, FOUR)
    assert Strategy.from_json(strategy.to_json()) == strategy
    servers = Counter(one.server for _, one in strategy.synchronized_by(TileSynchronizer))
    assert servers.keys() <= {"a:CPU:0", "b:CPU:0", "c:CPU:0", "d:CPU:0"}
    assert max(servers.values()) - min(servers[f"{host}:CPU:0"] for host in "abcd") <= 1
    eight = ResourceSpec(tuple(Host(name, name) for name in "stuvwxyz"))
    moved = retargeted_to(strategy, graph, eight)
    assert {one.server in one.devices for _, one in moved.synchronized_by(TileSynchronizer)} == {True}
    verify(moved, graph, eight)


def test_servers_outside_of_the_groups_and_encoded_gradients_are_refused():
    _, data, step, _, _ = prepared(dense, (8,))
    graph = capture(step, single.specs_of(data[0]), VariableNames()).graph
    strategy = compose("Tiled(dims=('*dense*/kernel=1', '*=whole'), groups=2, served=True)", graph, FOUR)
    assert not verify(strategy, graph, FOUR)
    config = next(one for one in strategy.variables if one.synchronizer.tiled_for is not None)

    def problems(compressor=None, **changes):
        shards = (replace(shard, synchronizer=replace(shard.synchronizer, **changes)) for shard in config.shards)
        changed = replace(config, shards=tuple(replace(shard, compressor=compressor) for shard in shards))
        others = tuple(changed if one is config else one for one in strategy.variables)
        return " ".join(map(str, verify(replace(strategy, variables=others), graph, FOUR)))

    assert "one of the groups applies the updates of a part for all" in problems(server="x:CPU:0")
    assert "gradients go to servers as messages" in problems(between=AllReduceSynchronizer(0, "horovod"))
    assert "groups send gradients to servers as they are" in problems("FP16")
    with pytest.raises(StrategyError, match="`served` is True with one group, allowed: False, or more `groups`"):
        compose("Tiled(served=True)", graph, FOUR)


def test_an_update_that_waits_for_finite_gradients_is_refused_in_words():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    optimizer.build(model.trainable_variables)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x) ** 2)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return loss

    text = "Tiled(dims=('*kernel=1',), groups=2, served=True)"
    with pytest.raises(StrategyError, match="but each of its parts is updated by what others are too"):
        InProcessCluster(step, [np.ones((8, 4), np.float32)], text, FOUR)


def test_a_hint_names_the_weight_with_which_a_slot_is_cut():
    weight, slot = (tf.Variable(tf.ones([4, 6]), name=name) for name in ("weight", "weight_slot"))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ weight) ** 2) + tf.reduce_mean(tf.tanh(x @ slot) ** 2)
        slot.assign(0.9 * slot + tape.gradient(loss, weight))
        weight.assign_sub(0.1 * slot)
        return loss

    with pytest.raises(StrategyError, match="needs all parts of `weight_slot` on each worker") as caught:
        InProcessCluster(step, [np.ones((8, 4), np.float32)], "Tiled(dims=('weight=1', '*=whole'), groups=2)", FOUR)
    assert "`Tiled(dims=('weight=whole',))`" in (caught.value.hint or "")
