"""Groups of replicas: tiled inside of each, the batch cut between them; weights are those of one device."""

import random
import re
from dataclasses import replace

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture
from autodist.graph.layouts import TiledVariables
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import PSSynchronizer, Strategy, VariableConfig, compose
from autodist.testing import InProcessCluster, certify_in_process

from . import single
from .test_tiled import drawn_dims, perceptron, recurrent, shared, trained, transformer

layers = keras.layers
FOUR = ResourceSpec(tuple(Host(name, name) for name in "abcd"))
TWO_OF_TWO = ResourceSpec(tuple(Host(name, name, cpus=2) for name in "ab"))


def dense():
    hidden = [layers.Dense(24, activation="tanh", kernel_regularizer="l2"), layers.Dense(24, activation="relu")]
    return keras.Sequential([keras.Input((12,)), *hidden, layers.Dense(12, activation="softmax")])


def plain_convolutions():
    body = [layers.Conv2D(8, 3, padding="same", activation="relu"), layers.MaxPooling2D(2), layers.Flatten()]
    return keras.Sequential([keras.Input((8, 8, 4)), *body, layers.Dense(24), layers.Dense(8)])


class Noise(layers.Layer):
    """Adds noise that no counter gives."""

    def call(self, given):
        return given + tf.random.normal(tf.shape(given))


def noisy():
    return keras.Sequential([keras.Input((12,)), layers.Dense(24), Noise(), layers.Dense(12)])


def prepared(build, rows, seed=0):
    """A model's step, batches of so many rows, and what one device makes of them."""
    keras.utils.set_random_seed(seed)
    model = build()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(seed)
    shapes = (model.input_shape[1:], model.output_shape[1:])
    data = [[numbers.normal(size=(n, *shape)).astype(np.float32) for shape in shapes] for n in rows]
    return model, data, *trained(model, optimizer, data)


def wholes(values):
    """By the program's variable, what each worker or group has of it; parts are put together."""
    found = {name: every for name, every in values.items() if "/shard_" not in name}
    parts = {}
    for name, every in values.items():
        whole, marked, number = name.partition("/shard_")
        if marked:
            parts.setdefault(whole, {})[int(number)] = every
    for name, by_number in parts.items():
        found[name] = [[by_number[k][group] for k in sorted(by_number)] for group in range(len(by_number[0]))]
    return found


def assert_same(values, after):
    for name, every in wholes(values).items():
        expected, bound = after[name], 1e-5 * max(1.0, np.abs(after[name]).max())
        for value in every:
            if isinstance(value, list):
                cut = (dim for dim, size in enumerate(expected.shape) if value[0].shape[dim] != size)
                value = np.concatenate(value, next(cut))
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=bound, err_msg=name)


def with_marks(build, spec):
    return pytest.param(build, spec, marks=() if build is dense and spec is FOUR else pytest.mark.slow)


@pytest.mark.parametrize(
    ("build", "spec"),
    [
        *(with_marks(build, FOUR) for build in (dense, perceptron, shared, plain_convolutions, transformer, recurrent)),
        with_marks(dense, TWO_OF_TWO),
    ],
    ids=lambda value: getattr(value, "__name__", "hosts" if value is FOUR else "hosts of two"),
)
def test_groups_have_parts_of_the_batch_and_their_replicas_parts_of_weights(build, spec):
    model, data, step, losses, after = prepared(build, (8, 7, 1))
    dims = drawn_dims(model, random.Random(build.__name__), 2)
    with InProcessCluster(step, data[0], f"Tiled(dims={dims!r}, groups=2)", spec) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        assert_same(cluster.values(), after)
        for worker in cluster.workers if spec is FOUR else ():
            points = worker.graph.points
            gradients = {point.members for point in points if "/shard_" in (point.variable or "")}
            assert gradients == {(worker.rank % 2, worker.rank % 2 + 2)}  # between those who have a part
            first = worker.rank // 2 * 2
            assert {(first, first + 1)} <= {point.members for point in points} <= {(first, first + 1), *gradients, None}


def test_metrics_of_groups_are_those_of_one_device():
    """Some add a sum to a variable where no gradient flows, which every group takes for the whole batch then."""
    keras.utils.set_random_seed(0)
    model, optimizer = dense(), keras.optimizers.SGD(0.05)
    optimizer.build(model.trainable_variables)
    metrics = [keras.metrics.SparseCategoricalAccuracy(), keras.metrics.MeanAbsoluteError()]
    numbers = np.random.default_rng(0)
    data = [[numbers.normal(size=(n, 12)).astype(np.float32), numbers.integers(0, 12, n)] for n in (8, 7)]

    def step(x, labels):
        with tf.GradientTape() as tape:
            given = model(x, training=True)
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(labels, given))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        metrics[0].update_state(labels, given)
        metrics[1].update_state(x, given)
        return [metric.result() for metric in metrics]

    variables = [*model.variables, *optimizer.variables, *(v for metric in metrics for v in metric.variables)]
    begun = [v.numpy() for v in variables]
    compiled = tf.function(step, reduce_retracing=True)
    results = [[found.numpy() for found in compiled(*map(tf.constant, batch))] for batch in data]
    for variable, value in zip(variables, begun, strict=True):
        variable.assign(value)
    with InProcessCluster(step, data[0], "Tiled(dims=('*dense/kernel=1', '*=whole'), groups=2)", FOUR) as cluster:
        for batch, expected in zip(data, results, strict=True):
            for found in cluster.step(*batch):
                np.testing.assert_allclose(found, expected, rtol=1e-5)


def odd_numbers():
    body = [layers.Conv2D(5, 3, padding="same", activation="relu"), layers.Flatten()]
    head = [layers.Dense(13, activation="tanh"), layers.LayerNormalization(), layers.Dense(9), layers.Dense(7)]
    return keras.Sequential([keras.Input((4, 4, 3)), *body, *head])


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        pytest.param(FOUR, "", marks=pytest.mark.slow),
        (ResourceSpec(tuple(Host(name, name) for name in "abc")), ""),
        pytest.param(TWO_OF_TWO, "", marks=pytest.mark.slow),
        pytest.param(FOUR, ", groups=2", marks=pytest.mark.slow),
    ],
    ids=["four", "three", "hosts of two", "groups"],
)
def test_parts_of_several_workers_may_be_unequal(spec, options):
    model, data, step, losses, after = prepared(odd_numbers, (8, 7, 1))
    dims = drawn_dims(model, random.Random(3), 4, unequal=True)
    assert {rule.rpartition("=")[2] for rule in dims} >= {"0", "1"}
    with InProcessCluster(step, data[0], f"Tiled(dims={dims!r}{options})", spec) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        assert_same(cluster.values(), after)


@pytest.mark.parametrize(
    ("compressor", "dtypes"), [("FP16", {"float16"}), pytest.param("TopK(ratio=1.0)", None, marks=pytest.mark.slow)]
)
def test_gradients_of_parts_are_encoded_between_groups(compressor, dtypes):
    """Gradients of small whole numbers lose nothing, so weights are those of one device."""
    numbers = np.random.default_rng(0)
    begun = [numbers.integers(-2, 3, shape).astype(np.float32) for shape in ((4, 7), (7, 4))]
    one, two = (tf.Variable(value, name=name) for value, name in zip(begun, ("one", "two"), strict=True))

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.matmul(tf.matmul(x, one), two) * y)
        for variable, gradient in zip((one, two), tape.gradient(loss, (one, two)), strict=True):
            variable.assign_sub(0.25 * gradient)
        return loss

    data = [numbers.integers(-2, 3, (2, n, 4)).astype(np.float32) for n in (6, 3)]
    compiled = tf.function(step)
    losses = [compiled(*map(tf.constant, arrays)).numpy() for arrays in data]
    after = {"one": one.numpy(), "two": two.numpy()}
    for variable, value in zip((one, two), begun, strict=True):
        variable.assign(value)
    text = f"Tiled(dims=('one=1', 'two=0'), groups=2, compressor={compressor!r})"
    with InProcessCluster(step, data[0], text, FOUR) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            assert [found for [found] in cluster.step(*batch)] == [loss] * 4
        assert_same(cluster.values(), after)
        points = [point for worker in cluster.workers for point in worker.graph.points if point.variable]
        assert {point.members for point in points} == {(0, 2), (1, 3)}
        assert dtypes is None or {dtype for point in points for dtype in point.dtypes} == dtypes
    assert all(np.abs(after[name] - value).max() > 1 for name, value in zip(after, begun, strict=True))


def at_server(graph, text):
    """A strategy whose variables that are not tiled are at a server."""
    strategy = compose(text, graph, FOUR)
    others = (
        c if c.synchronizer.tiled_for is not None else whole_at(c.variable, "b:CPU:0") for c in strategy.variables
    )
    return replace(strategy, variables=tuple(others))


def whole_at(variable, device):
    return VariableConfig.whole(variable, PSSynchronizer(device))


@pytest.mark.slow
def test_other_variables_have_what_they_are_given():
    _, data, step, losses, after = prepared(dense, (8, 7, 1))
    text = "Tiled(dims=('*dense*/kernel=1', '*=whole'), groups=2)"
    with InProcessCluster(step, data[0], lambda graph: at_server(graph, text), FOUR) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        cluster.settle(len(data))
        assert_same(cluster.values(), after)


@pytest.mark.parametrize(
    "dims",
    [
        "('words=0', 'more=whole', 'scale=0')",
        "('words=1', 'more=1', 'scale=whole')",
        pytest.param("('words=whole', 'more=0')", marks=pytest.mark.slow),
    ],
)
def test_rows_of_tables_are_joined_between_groups(dims):
    """Each group looks up what its own examples have; a word may be in several, or in none of a group's."""
    random_numbers = np.random.default_rng(0)
    first = {name: random_numbers.normal(size=(6, 4)).astype(np.float32) for name in ("words", "more")}
    words, more = (tf.Variable(value, name=name) for name, value in first.items())
    scale = tf.Variable(tf.ones(4), name="scale")

    def step(ids, y):
        with tf.GradientTape() as tape:
            found = tf.nn.embedding_lookup(words, ids) * scale + tf.gather(more, ids)
            loss = tf.reduce_mean(tf.reduce_sum((tf.reduce_sum(found, 1) - y) ** 2, -1))
        for variable, gradient in zip((words, more, scale), tape.gradient(loss, (words, more, scale)), strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
            else:
                variable.assign_sub(0.1 * gradient)
        return loss, found

    data = [[random_numbers.integers(0, 6, (n, 3)), np.ones((n, 4), np.float32)] for n in (8, 5, 1)]
    compiled = tf.function(step)
    expected = [[np.asarray(x) for x in compiled(*map(tf.constant, arrays))] for arrays in data]
    after = {v.name.removesuffix(":0"): v.numpy() for v in (words, more, scale)}
    for variable, value in ((words, first["words"]), (more, first["more"]), (scale, np.ones(4))):
        variable.assign(value)
    with InProcessCluster(step, data[0], f"Tiled(dims={dims}, groups=2)", FOUR) as cluster:
        for batch, wanted in zip(data, expected, strict=True):
            for outputs in cluster.step(*batch):
                for found, value in zip(outputs, wanted, strict=True):
                    np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-6)
        assert_same(cluster.values(), after)


def test_a_strategy_with_groups_is_read_back():
    _, data, step, _, _ = prepared(dense, (8,))
    graph = capture(step, single.specs_of(data[0]), VariableNames()).graph
    strategy = compose("Tiled(dims=('*/kernel=1', '*=whole'), groups=2)", graph, FOUR)
    again = Strategy.from_json(strategy.to_json())
    assert again == strategy
    assert again.groups_of_replicas == 2
    tile = next(s for _, s in again.synchronizers if s.tiled_for is not None)
    assert (tile.destination, tile.copies, tile.between.communicator) == ("a:CPU:0", ("c:CPU:0",), "tcp")


@pytest.mark.parametrize(
    ("groups", "spec", "said"),
    [
        (3, FOUR, "`groups` is 3, allowed: a divisor of the 4 replicas"),
        (2, ResourceSpec((Host("a", "a", cpus=3), Host("b", "b"))), "allowed: groups of whole hosts"),
        (2, ResourceSpec((Host("a", "a", cpus=4),)), "allowed: groups of whole hosts"),
    ],
)
def test_groups_that_do_not_fit_the_cluster_are_refused(groups, spec, said):
    _, data, step, _, _ = prepared(dense, (8,))
    graph = capture(step, single.specs_of(data[0]), VariableNames()).graph
    with pytest.raises(StrategyError, match=re.escape(said)):
        compose(f"Tiled(dims=('*dense*/kernel=1', '*=whole'), groups={groups})", graph, spec)


def test_random_numbers_that_groups_can_not_draw_are_refused():
    model, data, step, _, _ = prepared(noisy, (8,))
    dims = drawn_dims(model, random.Random(1), 2)
    said = "groups of replicas have parts of the batch, and .*draws random numbers that no"
    with pytest.raises(StrategyError, match=said) as caught:
        InProcessCluster(step, data[0], f"Tiled(dims={dims!r}, groups=2)", FOUR)
    assert "leave out `groups=`" in (caught.value.hint or "")


def test_a_step_that_trains_nothing_and_that_groups_can_not_share_is_that_of_all_replicas():
    """As a function of arrays whose rows are shared: each replica takes the variables whole."""
    weight = tf.Variable(tf.ones([4, 6]), name="weight")
    names = VariableNames()

    def train(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    def summed(x):
        return x @ weight, tf.reduce_sum(x @ weight, 0)

    strategy = compose(
        "Tiled(dims=('weight=1',), groups=2)", capture(train, [tf.TensorSpec([None, 4])], names).graph, FOUR
    )
    graph, prepared = prepare(
        capture(summed, [tf.TensorSpec([9, 4])], names, split=(True,), fixed=True).graph, strategy
    )
    assert TiledVariables.of(graph).parts == 2
    for rank in range(4):
        layout = replace(Layout.of(prepared, FOUR, rank, server=False), groups=2)
        made = rewrite(graph, layout, kernels_for(graph, prepared))[0]
        assert {point.members for point in made.points} == {None}  # they meet at once


def with_the_highest():
    """As Adam with `amsgrad`: a slot is computed from what was read of another one."""
    weight = tf.Variable(np.random.default_rng(0).normal(size=(4, 6)), name="weight")
    velocity, highest = (tf.Variable(tf.zeros([4, 6], tf.float64), name=name) for name in ("velocity", "highest"))

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ weight) ** 2)
        gradient = tape.gradient(loss, weight)
        velocity.assign(0.9 * velocity + 0.1 * gradient**2)
        highest.assign(tf.maximum(highest, velocity))
        weight.assign_sub(0.1 * gradient / (tf.sqrt(highest) + 1e-3))
        return loss

    return step


@pytest.mark.parametrize("options", ["", ", groups=2"])
def test_slots_that_are_computed_from_other_slots_are_in_parts_too(options):
    batches = [[np.random.default_rng(k).normal(size=(7, 4))] for k in range(3)]
    certify_in_process(with_the_highest, batches, f"Tiled(dims=('weight=1',){options})", FOUR, rtol=1e-10)
