"""Variables of which each replica has a part: weights are those of one device, whichever dims are cut."""

import random
from collections import Counter
from dataclasses import replace
from itertools import product

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import StrategyError
from autodist.graph import VariableNames, capture, node_of
from autodist.graph.layouts import computed_whole, tile_exchanges
from autodist.resource_spec import ResourceSpec
from autodist.strategies import PSSynchronizer, VariableConfig, explain, get
from tests.quick import slow_but

from . import single
from .steps import rewritten
from .test_replicate import batch, check

layers = keras.layers


def perceptron():
    hidden = [layers.Dense(24, activation="tanh", kernel_regularizer="l2"), layers.Dense(24, activation="relu")]
    return keras.Sequential([keras.Input((12,)), *hidden, layers.Dropout(0.2), layers.Dense(12, activation="softmax")])


def shared():
    given, dense = keras.Input((12,)), layers.Dense(12, activation="tanh")
    return keras.Model(given, layers.Dense(8)(layers.Concatenate()([dense(dense(given)), given])))


def convolutions():
    body = [layers.Conv2D(8, 3, padding="same"), layers.BatchNormalization(), layers.MaxPooling2D(2)]
    head = [layers.Conv2D(16, 3, strides=2, activation="relu"), layers.Flatten(), layers.Dense(24), layers.Dense(8)]
    return keras.Sequential([keras.Input((8, 8, 4)), *body, *head])


def depthwise():
    body = [layers.DepthwiseConv2D(3, padding="same"), layers.Conv2D(16, 1), layers.LayerNormalization()]
    return keras.Sequential([keras.Input((8, 8, 8)), *body, layers.GlobalAveragePooling2D(), layers.Dense(8)])


def transposed():
    body = [layers.Conv2DTranspose(8, 3, strides=2, padding="same"), layers.GlobalMaxPooling2D(), layers.Dense(8)]
    return keras.Sequential([keras.Input((4, 4, 8)), *body])


def transformer():
    given = keras.Input((6, 24))
    hidden = layers.LayerNormalization()(layers.MultiHeadAttention(12, 4)(given, given) + given)
    hidden = layers.LayerNormalization()(layers.Dense(24)(layers.Dense(48, activation="gelu")(hidden)) + hidden)
    return keras.Model(given, layers.Dense(8)(layers.GlobalAveragePooling1D()(hidden)))


def recurrent():
    return keras.Sequential([keras.Input((5, 8)), layers.LSTM(12, unroll=True), layers.Dense(8)])


def looped():
    return keras.Sequential([keras.Input((5, 8)), layers.GRU(12, unroll=False), layers.Dense(8)])


def constrained():
    """Its weights are read, scaled and written again after they were updated."""
    limited = layers.Dense(16, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.8))
    return keras.Sequential([keras.Input((12,)), limited, layers.Dense(8, kernel_constraint="unit_norm")])


WIDE = 256
MODELS = (perceptron, shared, convolutions, depthwise, transposed, transformer, recurrent, looped, constrained)
QUICK = {(model, 0) for model in MODELS}
UNEQUAL = {(transformer, 0), (recurrent, 0)}


def trained(model, optimizer, data):
    """A step, what one device makes of it, and the variables' names, which are set back."""

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y)) + sum(model.losses)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    variables = [v.value for v in (*model.variables, *optimizer.variables)]
    before = [v.numpy() for v in variables]
    compiled = tf.function(step)
    losses = [compiled(*map(tf.constant, arrays)).numpy() for arrays in data]
    after = {v.path: v.numpy() for v in (*model.variables, *optimizer.variables)}
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    return step, losses, after


def drawn_dims(model, chosen, parts, *, unequal=False):
    """For each variable, a dim that the replicas divide, or only have parts of; or none."""
    rules = []
    for variable in model.trainable_variables:
        dims = [str(d) for d, n in enumerate(variable.shape) if (n >= parts if unequal else n % parts == 0)]
        rules.append(f"{variable.path}={chosen.choice([*dims, 'whole'])}")
    return tuple(rules)


@pytest.mark.parametrize(
    ("build", "seed"),
    slow_but(QUICK, product(MODELS, range(4))),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_replicas_compute_with_their_parts(build, seed):
    trains_as_one_device(build, seed, [2, 3, 4], unequal=False)


@pytest.mark.parametrize(
    ("build", "seed"),
    slow_but(UNEQUAL, product(MODELS, range(3))),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_parts_may_be_unequal(build, seed):
    """Of 24 units, 5 replicas have 5, 5, 5, 5 and 4; what 5 does not divide is cut all the same."""
    trains_as_one_device(build, seed, [5], unequal=True)


PICKS = {
    "range": lambda x: x[:, 2:],
    "backwards": lambda x: x[:, 5:1:-2],
    "from behind": lambda x: x[:, -4:-1],
    "one": lambda x: x[:, 3:4] * x[:, 1, tf.newaxis],
    "Slice": lambda x: tf.slice(x, [0, 1, 0], [-1, 3, -1]),
    "Pad": lambda x: tf.pad(x, [[0, 0], [2, 1], [0, 0]]),
}
QUICK_PICKS = ("range", "one", "Pad")


@pytest.mark.parametrize("pick", slow_but(QUICK_PICKS, PICKS))
def test_slices_begin_where_they_did_along_dims_that_are_not_cut(pick):
    keras.utils.set_random_seed(3)
    body = [layers.Dense(WIDE, "tanh", name="one"), layers.Lambda(PICKS[pick]), layers.Dense(WIDE, "tanh", name="two")]
    model = keras.Sequential([keras.Input((7, 8)), *body, layers.GlobalAveragePooling1D(), layers.Dense(8)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(3)
    data = [[numbers.normal(size=(6, *shape)).astype(np.float32) for shape in ((7, 8), (8,))] for _ in range(2)]
    step, losses, after = trained(model, optimizer, data)
    strategy = "Tiled(dims=['*one/kernel=1', '*one/bias=0', '*two/kernel=0'])"
    graph = single.rewritten(step, data[0], 2, strategy, batch_size=6)[1]
    assert all(found.size_bytes < 4 * WIDE**2 for found in graph.exchanged), "no weights travel, so slices are cut"
    ran = single.run(step, data, [3, 3], strategy=strategy, batch_size=6)
    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-5 * max(1.0, np.abs(after[name]).max()))


def trains_as_one_device(build, seed, replicas, *, unequal):
    chosen = random.Random(f"{build.__name__} {seed}")
    keras.utils.set_random_seed(seed)
    model = build()
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    sizes = [chosen.randint(0 if k else 1, 4) for k in range(chosen.choice(replicas))]
    rows, numbers = sum(sizes), np.random.default_rng(seed)
    shapes = (model.input_shape[1:], model.output_shape[1:])
    data = [[numbers.normal(size=(rows, *shape)).astype(np.float32) for shape in shapes] for _ in range(2)]
    step, losses, after = trained(model, optimizer, data)
    begun = {v.path: v.numpy() for v in model.trainable_variables}

    dims = drawn_dims(model, chosen, len(sizes), unequal=unequal)
    ran = single.run(step, data, sizes, strategy=f"Tiled(dims={dims!r})")

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    assert not ran.warnings
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-5 * max(1.0, np.abs(after[name]).max()))
    assert any(np.abs(ran.variables[name] - value).max() > 1e-4 for name, value in begun.items())


@pytest.mark.parametrize(
    "strategy",
    ["Tiled(dims=('moves=0',))", "Tiled(dims=('moves=1',))", "PartitionedPS(communicator='tcp', min_shard_bytes=0)"],
)
def test_values_are_picked_out_of_a_variable_by_their_coordinates(strategy):
    numbers = np.random.default_rng(0)
    moves = tf.Variable(numbers.normal(size=(4, 4)).astype(np.float32), name="moves")
    data = [[numbers.integers(0, 4, (8, 3, 2))] for _ in range(2)]

    def step(pairs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.reduce_sum(tf.gather_nd(moves, pairs) ** 2, axis=1))
        moves.assign_sub(0.1 * tape.gradient(loss, moves))
        return loss

    begun, compiled = moves.numpy(), tf.function(step)
    losses = [compiled(*map(tf.constant, arrays)).numpy() for arrays in data]
    after = moves.numpy()
    moves.assign(begun)

    ran = single.run(step, data, [4, 4], strategy=strategy)

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    [value] = ran.variables.values()
    np.testing.assert_allclose(value, after, rtol=1e-5, atol=1e-6)
    assert np.abs(value - begun).max() > 1e-3


WIDTHS = {
    "of a mask": lambda x: tf.boolean_mask(x, [True, False] * 6, axis=1),
    "said while tracing": lambda x: layers.CategoryEncoding(6, "count")(
        tf.cast(x * x, tf.int32) % 6, count_weights=tf.abs(x)
    ),
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", WIDTHS)
def test_gradients_of_inputs_whose_width_tensorflow_does_not_infer(name, dim):
    w = tf.Variable(tf.random.stateless_normal([6, 4], [1, 2]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((WIDTHS[name](x) @ w - x[:, :4]) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return [loss]

    check(step, [[batch(8, 0, 12)], [batch(8, 1, 12)]], (5, 3), w, strategy=f"Tiled(dims=['w={dim}'])")


def test_a_gradient_in_which_no_example_has_a_part():
    """As that of a generator, if the script says how many examples of noise it gets."""
    numbers = np.random.default_rng(0)
    maker = tf.Variable(numbers.normal(size=(6, 8)).astype(np.float32), name="maker")
    judge = tf.Variable(numbers.normal(size=(8, 4)).astype(np.float32), name="judge")
    noise = numbers.normal(size=(5, 6)).astype(np.float32)
    data = [[numbers.normal(size=(8, 8)).astype(np.float32)] for _ in range(2)]

    def step(real):
        with tf.GradientTape(persistent=True) as tape:
            made = tf.tanh(noise @ maker) @ judge
            good = tf.reduce_mean((made - 1) ** 2)
            bad = tf.reduce_mean(made**2) + tf.reduce_mean((real @ judge - 1) ** 2)
        ofs = tape.gradient(good, maker), tape.gradient(bad, judge)
        maker.assign_sub(0.1 * ofs[0])
        judge.assign_sub(0.1 * ofs[1])
        return good + bad

    begun, compiled = [maker.numpy(), judge.numpy()], tf.function(step)
    losses = [compiled(*map(tf.constant, arrays)).numpy() for arrays in data]
    after = {"maker": maker.numpy(), "judge": judge.numpy()}
    for variable, value in zip((maker, judge), begun, strict=True):
        variable.assign(value)

    ran = single.run(step, data, [4, 4], strategy="Tiled(dims=('maker=0', 'judge=1'))")

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    assert set(ran.variables) == set(after)
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-6)
    assert all(np.abs(value - old).max() > 1e-3 for value, old in zip(after.values(), begun, strict=True))


def wide_layers():
    return keras.Sequential([keras.Input((64,)), layers.Dense(512, activation="relu"), layers.Dense(64)])


def wide_convolutions():
    """Whose images have borders: parts by channels have the same."""
    wide = [layers.Conv2D(256, 3, padding="same", activation="relu") for _ in range(2)]
    return keras.Sequential([keras.Input((3, 3, 64)), *wide, layers.DepthwiseConv2D(3, padding="same")])


@pytest.mark.parametrize("build", [wide_layers, wide_convolutions], ids=lambda build: build.__name__)
def test_weights_stay_where_they_are(build):
    """Activations travel: of large weights and few examples, no gradient and no value is sent."""
    keras.utils.set_random_seed(0)
    model = build()
    optimizer = keras.optimizers.SGD(0.05)
    shapes = (model.input_shape[1:], model.output_shape[1:])
    data = [[np.ones((8, *shape), np.float32) for shape in shapes]]
    step, _, _ = trained(model, optimizer, data)

    graph = single.rewritten(step, data[0], 4, "Tiled()", batch_size=8)[1]

    large = [v for v in model.trainable_variables if len(v.shape) > 1 and np.prod(v.shape) > 10_000]
    kernels = {variable.path for variable in large}
    assert not kernels & {point.variable for point in graph.points}
    assert not [one for one in graph.exchanged if one.size_bytes > 50_000 and "ReadVariableOp" in one.node]
    homes = [graph.placement[f"{name}/shard_{k}"] for name in kernels for k in range(4)]
    assert sorted(set(homes)) == sorted(homes[:4])


@pytest.mark.parametrize("dim", [0, 1])
def test_a_step_for_one_number_of_rows_has_parts_too(dim):
    """Lengths that are multiples of that number by chance are lengths all the same."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((12,)), layers.Dense(24, activation="tanh"), layers.Dense(8)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(0)
    data = [[numbers.normal(size=(4, width)).astype(np.float32) for width in (12, 8)] for _ in range(2)]
    step, losses, after = trained(model, optimizer, data)

    ran = single.run(step, data, [2, 2], strategy=f"Tiled(dims=('*/kernel={dim}',))", fixed=True)

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-6)


def test_all_workers_meet_as_often_where_one_of_them_alone_takes_a_gradient():
    """A server takes a gradient of tensors that are whole everywhere; all workers gather what they are made from."""
    keras.utils.set_random_seed(0)
    images = [layers.Conv2D(6, 3, activation="relu"), layers.Flatten(), layers.Dense(512, "relu"), layers.Dense(10)]
    model = keras.Sequential([keras.Input((16, 16, 3)), *images])
    data = [np.ones((4, 16, 16, 3), np.float32), np.ones((4, 10), np.float32)]
    step, _, _ = trained(model, keras.optimizers.SGD(0.05), [data])
    graph = capture(step, single.specs_of(data), VariableNames()).graph.with_batch_size(4)
    first, *_, last = (v.path for v in model.trainable_variables if v.path.endswith("kernel"))

    class LastOnServer:
        def build(self, graph, spec):
            plan = get(f"Tiled(dims=('{first}=3', '*=whole'))").build(graph, spec)
            on_server = VariableConfig.whole(last, PSSynchronizer(plan.graph.replicas[0]))
            return replace(plan, variables=tuple(on_server if v.variable == last else v for v in plan.variables))

    met = [
        sorted(n.attr["collective"].s for n in found.graph_def.node if n.op.startswith("AutodistAll"))
        for found in rewritten(graph, LastOnServer(), 3, 1)
    ]
    assert met[0] == met[1] == met[2]
    assert met[0]


@pytest.mark.parametrize(
    ("strategy", "said"),
    [
        ("Tiled(dims=('kernel',))", "allowed: `PATTERN=DIM`"),
        (
            "Tiled(dims=('*/kernel=2', '*/bias=whole'))",
            r"dim 2 of `.*/kernel`, allowed: a dim of its shape \(8, 6\), or `whole`",
        ),
        ("Tiled(dims=('*narrow/kernel=1', '*=whole'))", r"dim of its shape \(6, 2\) that has at least 3 elem"),
    ],
)
def test_what_does_not_fit_is_said(strategy, said):
    model = keras.Sequential([keras.Input((8,)), layers.Dense(6), layers.Dense(2, name="narrow")])
    optimizer = keras.optimizers.SGD(0.05)
    data = [[np.ones((4, 8), np.float32), np.ones((4, 2), np.float32)]]
    step, _, _ = trained(model, optimizer, data)
    with pytest.raises(StrategyError, match=said):
        single.rewritten(step, data[0], 3, strategy)


def test_what_can_not_be_cut_is_named_with_its_share():
    class Whitened(layers.Layer):
        def call(self, given):
            return given @ tf.linalg.inv(tf.matmul(given, given, transpose_a=True) + tf.eye(given.shape[1]))

    model = keras.Sequential([keras.Input((12,)), layers.Dense(64), Whitened(), layers.Dense(64)])
    data = [np.ones((8, 12), np.float32), np.ones((8, 64), np.float32)]
    step, _, _ = trained(model, keras.optimizers.SGD(0.05), [data])
    captured = capture(step, single.specs_of(data), VariableNames()).graph.with_batch_size(8)
    spec = ResourceSpec.local(cpus=2)
    told = explain(get("Tiled(dims=('*/kernel=1', '*=whole'))").build(captured, spec), captured, spec).whole
    assert 0.05 < told.share < 1
    assert "MatrixInverse" in {op for _, op, _ in told.operators}
    assert explain(get("AllReduce(communicator='tcp')").build(captured, spec), captured, spec).whole is None


@pytest.mark.parametrize(
    "build",
    slow_but((perceptron, convolutions), (perceptron, convolutions, transformer)),
    ids=lambda build: build.__name__,
)
def test_what_is_exchanged_is_known_before_anything_is_cut(build):
    """Costs go by it, long before a strategy is compiled."""
    keras.utils.set_random_seed(0)
    model, replicas, rows = build(), 4, 8
    optimizer = keras.optimizers.Adam(0.05)
    optimizer.build(model.trainable_variables)
    data = [np.ones((rows, *shape), np.float32) for shape in (model.input_shape[1:], model.output_shape[1:])]
    step, _, _ = trained(model, optimizer, [data])
    chosen = drawn_dims(model, random.Random(1), replicas)
    dims = {name: int(dim) for name, _, dim in (rule.rpartition("=") for rule in chosen) if dim != "whole"}

    captured = capture(step, single.specs_of(data), VariableNames()).graph
    expected = tile_exchanges(captured, dims, replicas, 1024)  # for which a step is planned that is for any number
    whole = computed_whole(captured, dims, replicas, 1024)
    graph = single.rewritten(step, data, replicas, f"Tiled(dims={chosen!r})")[1]

    assert expected
    assert Counter(one.how for one in expected) == Counter(one.how for one in graph.exchanged)
    marks = {v.name: [node_of(t) for t in v.gradient_tensors] for v in captured.trainable}
    not_sent = {name for name, found in marks.items() if name not in dims and whole.issuperset(found)}
    assert not_sent == marks.keys() - dims.keys() - {point.variable for point in graph.points}
