"""Random partitions of small models equal the whole model on one device, in weights and slots."""

import random
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.graph import ShardOrigin, VariableNames, capture, node_of
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    StrategyBuilder,
    VariableConfig,
    num_shards,
)
from autodist.testing._in_process._in_process_cluster import value_of

from . import single
from .steps import ops

ROWS, COLUMNS = 7, 3


class Cut(StrategyBuilder):
    """Cuts variables as it is told, or at random, if their updates let it."""

    name = "Cut"

    def __init__(self, partitions=None, seed=None):
        object.__setattr__(self, "partitions", partitions or {})
        object.__setattr__(self, "chance", None if seed is None else random.Random(seed))

    def build(self, graph, spec):
        configs = [self.config(graph, variable, spec) for variable in graph.trainable]
        return Strategy(GraphConfig(tuple(d.name for d in spec.replicas), "tcp"), tuple(configs))

    def config(self, graph, variable, spec):
        partition = self.partitions.get(variable.name)
        if self.chance is not None and not graph.update_regions.of(variable.name).obstacles:
            partition = tuple(self.parts(size) for size in variable.shape) or None
        homes = [host.cpu_devices[0].name for host in spec.hosts]
        shards = [ShardConfig(PSSynchronizer(homes[k % len(homes)])) for k in range(num_shards(partition))]
        return VariableConfig(variable.name, tuple(shards), partition)

    def parts(self, size):
        count = self.chance.randint(1, min(3, size))
        if self.chance.random() < 0.5:
            return count
        ends = sorted(self.chance.sample(range(1, size), count - 1))
        return tuple(end - begin for begin, end in zip([0, *ends], [*ends, size], strict=True))


class Model:
    """A weight and a bias that are trained in one of several ways."""

    def __init__(self, kind, optimizer, seed=0):
        chance = np.random.default_rng(seed)
        self.kind, self.optimizer = kind, optimizer
        rows = 4 if kind == "dense" else ROWS
        self.kept = [
            keras.Variable(chance.normal(size=(rows, COLUMNS)).astype("float32"), name="w"),
            keras.Variable(np.zeros(COLUMNS, "float32"), name="b"),
        ]
        if isinstance(optimizer, keras.optimizers.Optimizer):
            optimizer.build(self.kept)

    def __call__(self, x):
        w, b = (v.value for v in self.kept)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.predicted(w, x) + b - 1.0) ** 2)
        self.update(tape.gradient(loss, [w, b]), [w, b])
        return loss

    def predicted(self, w, x):
        if self.kind == "dense":
            return x @ w
        if self.kind == "positions":  # of rows that are the same for all examples, each replica has a part of a sum
            at = tf.range(tf.shape(x)[-1])
            return tf.nn.embedding_lookup(w, at) * tf.cast(x, "float32")[..., None]
        rows = tf.gather(tf.convert_to_tensor(w), x) if self.kind == "embedding" else tf.nn.embedding_lookup(w, x)
        return tf.reduce_sum(rows @ tf.transpose(w), axis=-1, keepdims=True) if self.kind == "tied" else rows

    def update(self, gradients, variables):
        if isinstance(self.optimizer, keras.optimizers.Optimizer):
            self.optimizer.apply(gradients)
        elif self.optimizer is not None:
            self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        else:
            for gradient, v in zip(gradients, variables, strict=True):
                if isinstance(gradient, tf.IndexedSlices):
                    v.scatter_sub(tf.IndexedSlices(0.1 * gradient.values, gradient.indices))
                else:
                    v.assign_sub(0.1 * tf.clip_by_value(gradient, -0.5, 0.5) + 0.01 * v)

    def batches(self, size, seed, count=3):
        chance = np.random.default_rng(seed)
        for _ in range(count):
            dense = chance.normal(size=(size, 4)).astype("float32")
            yield [dense if self.kind == "dense" else chance.integers(ROWS, size=(size, 2)).astype("int32")]


def check(model, sizes, strategy, seed=0):
    """Train on one device and in parts; the program's variables are the reference, slots included."""
    batches = list(model.batches(sum(sizes), seed))
    captured = capture(model, single.specs_of(batches[0]), VariableNames())
    before = {v.name: value_of(captured.handles[v.name]) for v in captured.graph.variables}
    ran = single.run(model, batches, sizes, strategy=strategy)
    one_device = tf.function(model)
    outputs = [np.asarray(one_device(*map(tf.constant, arrays))) for arrays in batches]
    for expected, (found,) in zip(outputs, ran.outputs, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    after = {v.name: value_of(captured.handles[v.name]) for v in captured.graph.variables}
    for name in ran.variables.keys() & after.keys():
        scale = float(np.abs(after[name]).max()) or 1.0
        np.testing.assert_allclose(ran.variables[name] / scale, after[name] / scale, atol=1e-5, err_msg=name)
    trainable = {v.name for v in captured.graph.trainable}
    assert all(not np.array_equal(before[name], after[name]) for name in trainable)
    return ran


K, V1 = keras.optimizers, tf.compat.v1.train
OPTIMIZERS = {
    "raw": lambda: None,
    "momentum": lambda: K.SGD(0.05, momentum=0.9, nesterov=True),
    "clipvalue": lambda: K.Adam(0.01, clipvalue=0.3),
    "amsgrad": lambda: K.Adam(0.01, amsgrad=True),
    "weight_decay": lambda: K.SGD(0.1, weight_decay=0.1),
    "ema": lambda: K.SGD(0.1, use_ema=True),
    "centered": lambda: K.RMSprop(0.01, momentum=0.9, centered=True),
    "v1_sgd": lambda: V1.GradientDescentOptimizer(0.1),
    "v1_momentum": lambda: V1.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
    "v1_adam": lambda: V1.AdamOptimizer(0.01),
    "v1_adagrad": lambda: V1.AdagradOptimizer(0.1),
    "v1_rmsprop": lambda: V1.RMSPropOptimizer(0.01, centered=True, momentum=0.9),
    "v1_adadelta": lambda: V1.AdadeltaOptimizer(0.5),
    "v1_ftrl": lambda: V1.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
}
KINDS = ("dense", "embedding", "lookup", "tied", "positions")


@pytest.mark.parametrize("optimizer", ["amsgrad", "momentum", "centered"])
def test_rows_that_are_the_same_for_all_examples_are_summed(optimizer):
    """Adam squares their gradients: of replicas' parts, strung together, it would square each."""
    check(Model("positions", OPTIMIZERS[optimizer]()), [3, 2], Cut({"w": (2, 1)}))


@settings(max_examples=5, deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(sorted(OPTIMIZERS)),
    st.lists(st.integers(0, 3), min_size=1, max_size=3).filter(lambda sizes: sizes[0] > 0),
    st.integers(0, 2**16),
)
def test_random_partitions_equal_one_device(kind, optimizer, sizes, seed):
    check(Model(kind, OPTIMIZERS[optimizer](), seed), sizes, Cut(seed=seed), seed)


WRAPPERS = ("Optimizer", "LossScaleOptimizer", "MultiOptimizer")
KERAS = sorted(
    name
    for name, cls in vars(keras.optimizers).items()
    if isinstance(cls, type) and issubclass(cls, K.Optimizer) and name not in WRAPPERS
)
NOT_ELEMENTWISE = {"Adafactor": "has the shape", "Lamb": "(Sum)", "Muon": "(Transpose)"}
NOT_TILED = {"Muon": ("dense", "lookup"), "Adafactor": ("lookup",)}
QUICK = {"Adam", "Lion", *NOT_ELEMENTWISE}


@pytest.mark.parametrize("kind", ["dense", "lookup"])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in KERAS])
def test_every_keras_optimizer_is_certified_or_refused(name, kind):
    model = Model(kind, getattr(K, name)())
    captured = capture(model, single.specs_of(next(model.batches(5, 0))), VariableNames())
    obstacles = [str(obstacle) for obstacle in captured.graph.update_regions.of("w").obstacles]
    assert bool(captured.graph.in_parts.tile_regions.of("w").obstacles) == (kind in NOT_TILED.get(name, ()))
    if name in NOT_ELEMENTWISE:
        assert any(NOT_ELEMENTWISE[name] in obstacle for obstacle in obstacles)
    else:
        assert obstacles == []
        check(model, (3, 2), Cut({"w": ((1, 3), 2) if kind == "dense" else (3, 2), "b": (2,)}))


class Recurrent(Model):
    """A table whose rows go into a loop that reads another variable: the loop's gradient asks for handles' shapes."""

    def predicted(self, w, x):
        rows, turn = tf.nn.embedding_lookup(w, x), self.kept[1].value
        advance = lambda k, state: (k + 1, tf.tanh(tf.gather(rows, k, axis=1) + turn * state))  # noqa: E731
        return tf.while_loop(lambda k, _: k < 2, advance, (0, tf.zeros_like(rows[:, 0])))[1]


def test_a_table_beside_a_loop_is_cut():
    model = Recurrent("lookup", K.Adam(0.01))
    graph = capture(model, single.specs_of(next(model.batches(5, 0))), VariableNames()).graph
    shapes = [node for node in graph.graph_def.node if node.op == "VariableShape"]
    assert shapes
    assert all(graph.analysis.touched(node) for node in shapes), "they ask the variable, not what the loop passes on"
    check(model, (3, 2), Cut({"w": ((3, 4), 1)}))


def test_the_page_has_every_optimizer():
    page = (Path(__file__).parents[2] / "docs" / "optimizers.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (yes|no)\b.*\| \2 \| (yes|no) \|$", page, re.MULTILINE)
    assert sorted(name for name, _, _ in rows) == KERAS
    assert {name for name, answer, _ in rows if answer == "no"} == set(NOT_ELEMENTWISE)
    assert {name for name, _, answer in rows if answer == "no"} == {
        name for name, kinds in NOT_TILED.items() if "dense" in kinds
    }


def test_keras_division_of_rows_by_zeros_in_parts():
    """The other branch: rows in which the divisor has a zero become NaN, on one device and in parts."""
    model = Model("lookup", None, seed=3)
    slot = tf.Variable(np.repeat([[1.0], [0.0], [2.0], [4.0], [1.0], [0.0], [1.0]], COLUMNS, axis=1).astype("float32"))

    def update(gradients, variables):
        slot.scatter_add(tf.IndexedSlices(0.0 * gradients[0].values, gradients[0].indices))
        variables[0].scatter_sub(keras.ops.divide(gradients[0], keras.ops.sqrt(slot)))
        variables[1].assign_sub(0.1 * gradients[1])

    model.update = update
    ids = np.array([[4, 0], [2, 5]], "int32")
    captured = capture(model, single.specs_of([ids]), VariableNames())
    assert captured.graph.update_regions.of("w").obstacles == ()
    ran = single.run(model, [[ids]], (2,), strategy=Cut({"w": ((2, 3, 2), 2)}))
    model(tf.constant(ids))
    expected = model.kept[0].numpy()
    assert np.isnan(expected[1]).all()
    assert np.isinf(expected[5]).any()
    np.testing.assert_allclose(ran.variables["w"], expected, rtol=1e-5)


def prepared(model, builder, hosts=2):
    """G, and the prepared G and S, of a cluster of some hosts."""
    graph = capture(model, single.specs_of(next(model.batches(5, 0))), VariableNames()).graph
    spec = ResourceSpec.local(workers=hosts)
    return graph, *prepare(graph, builder.build(graph, spec)), spec


def test_shards_are_variables_of_their_own():
    graph, cut, strategy, _ = prepared(Model("dense", K.Adam()), Cut({"w": ((1, 3), 2)}))
    shards = [v for v in cut.trainable if v.piece is not None]
    assert [v.name for v in shards] == [f"w/shard_{k}" for k in range(4)]
    assert [v.shape for v in shards] == [(1, 2), (1, 1), (3, 2), (3, 1)]
    assert shards[3].piece == ShardOrigin("w", (1, 2), (4, 3))
    assert all(v.coupled == (v.name,) and len(v.gradients) == 1 for v in shards)
    slots = [v for v in cut.variables if v.owners == ("w/shard_2",)]
    assert {v.shape for v in slots} == {(3, 2)}
    assert len(slots) == 2
    assert sorted(v.backward_order for v in cut.trainable) == list(range(5))
    assert [c.variable for c in strategy.variables] == [v.name for v in cut.trainable]
    assert all(c.partition is None for c in strategy.variables)
    assert len(graph.variables) < len(cut.variables)


def test_nothing_to_cut_changes_nothing():
    graph, cut, strategy, spec = prepared(Model("dense", K.SGD()), Cut())
    assert cut is graph
    assert strategy == Cut().build(graph, spec)
    _, cut, strategy, _ = prepared(Model("dense", K.SGD()), Cut({"w": (1, (3,))}))
    assert all(v.piece is None for v in cut.variables)
    assert all(c.partition is None for c in strategy.variables)


@pytest.mark.parametrize("kind", ["embedding", "lookup"])
def test_rows_travel_and_never_the_table(kind):
    """A shard's home looks up what either worker wants of it, nobody else touches it, and nobody reads it whole."""
    _, cut, strategy, spec = prepared(Model(kind, None), Cut({"w": (3, 1)}))
    layouts = [Layout.of(strategy, spec, rank, server=True) for rank in range(2)]
    for rank, layout in enumerate(layouts):
        graph = rewrite(cut, layout, kernels_for(cut, strategy))[0]
        homes = {v.handle: graph.placement[v.name] for v in cut.trainable if v.piece is not None}
        own = [handle for handle, home in homes.items() if f"/task:{rank}/" in home]
        lookups = [n for n in ops(graph, "ResourceGather") + ops(graph, "GatherV2") if "/shard_" in n]
        assert sorted(graph.nodes[name].device for name in lookups) == sorted(homes[handle] for handle in 2 * own)
        assert not [n.name for n in graph.graph_def.node if set(homes).difference(own).intersection(n.input)]
        sources = [node_of(graph.nodes[name].input[0]) for name in lookups]
        readers = {name for name in ops(graph, "ReadVariableOp") if graph.nodes[name].input[0] in homes}
        assert readers == {name for name in sources if name not in homes}
        takers = [n.name for n in graph.graph_def.node if readers.intersection(n.input)]
        assert set(takers) <= set(lookups)


def test_each_shards_gradient_is_its_own():
    """A shard's message has its own size, and only its server updates it."""
    _, cut, strategy, spec = prepared(Model("dense", K.SGD(0.1)), Cut({"w": ((3, 1), 1)}))
    for rank in range(2):
        graph = rewrite(cut, Layout.of(strategy, spec, rank, server=True), kernels_for(cut, strategy))[0]
        updated = {graph.nodes[name].input[0] for name in ops(graph, "AssignSubVariableOp")}
        own = {v.handle for v in cut.trainable if f"task:{rank}/" in graph.placement[v.name]}
        assert updated == own


def test_the_representation_of_all_reduced_shards():
    graph = prepared(Model("dense", K.SGD()), Cut())[0]
    shards = tuple(ShardConfig(AllReduceSynchronizer(k)) for k in range(2))
    configs = (VariableConfig("w", shards, (2, 1)), VariableConfig.whole("b", AllReduceSynchronizer(0)))
    strategy = prepare(graph, Strategy(GraphConfig(("a:CPU:0",), "collective"), configs))[1]
    assert strategy.groups == {0: ("w/shard_0", "b"), 1: ("w/shard_1",)}
