"""Updates that look at all of a variable, or at all variables, while each replica has parts: norms, clipping, Lamb."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.kernels.shard import OF_PARTS
from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster
from tests.quick import slow_but

from .test_groups import FOUR, wholes

layers, optimizers = keras.layers, keras.optimizers
TWO = ResourceSpec(tuple(Host(name, name) for name in "ab"))
COLUMNS = "Tiled(dims=['*/kernel=1', '*/bias=whole'])"
ROWS = "Tiled(dims=['*/kernel=0', '*/bias=0', '*table*=0'])"
GROUPS = "Tiled(dims=['*/kernel=0', '*/bias=0'], groups=2)"
BY_BOTH = [COLUMNS, pytest.param(ROWS, marks=pytest.mark.slow)]
WIDE = 64


def perceptron():
    return keras.Sequential(
        [keras.Input((12,)), layers.Dense(WIDE, "tanh"), layers.Dense(WIDE, "relu"), layers.Dense(6)]
    )


def data_of(model, count, dtype="float32", rows=8):
    numbers = np.random.default_rng(0)
    shapes = (model.input_shape[1:], model.output_shape[1:])
    return [[numbers.normal(size=(rows, *shape)).astype(dtype) for shape in shapes] for _ in range(count)]


def by_optimizer(model, optimizer):
    optimizer.build(model.trainable_variables)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return [loss]

    return step


def alone(step, variables, data):
    """Results and values of one device; the values are set back."""
    begun, compiled = [v.numpy() for v in variables], tf.function(step)
    results = [[found.numpy() for found in compiled(*map(tf.constant, arrays))] for arrays in data]
    after = [v.numpy() for v in variables]
    for variable, value in zip(variables, begun, strict=True):
        variable.assign(value)
    return results, begun, after


def numbered(names):
    """The names that a step gives to variables of these names."""
    found = []
    for name in names:
        times = sum(other.partition("#")[0] == name for other in found)
        found.append(f"{name}#{times}" if times else name)
    return found


def trains_as_one_device(step, variables, data, strategy, spec, tolerance=1e-5):
    """Returns the workers' graphs and the values of one device, by name."""
    names = numbered(getattr(v, "path", v.name.removesuffix(":0")) for v in variables)
    variables = [getattr(v, "value", v) if isinstance(v, keras.Variable) else v for v in variables]
    results, begun, after = alone(step, variables, data)
    with InProcessCluster(step, data[0], strategy, spec) as cluster:
        for arrays, expected in zip(data, results, strict=True):
            for found in cluster.step(*arrays):
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_allclose(one, other, rtol=tolerance)
        found = wholes(cluster.values())
        graphs = [worker.graph for worker in cluster.workers]
    ends = dict(zip(names, after, strict=True))
    assert found.keys() <= ends.keys()
    for name, value in ends.items():
        for one in found.get(name, ()):
            if isinstance(one, list):
                cut = (dim for dim, size in enumerate(value.shape) if one[0].shape[dim] != size)
                one = np.concatenate(one, next(cut))
            bound = tolerance * max(1e-2, np.abs(value).max())
            np.testing.assert_allclose(one, value, rtol=tolerance, atol=bound, err_msg=name)
    moved = [np.abs(new - old).max() for new, old in zip(after, begun, strict=True) if new.dtype.kind == "f"]
    assert max(moved) > 1e-4
    return graphs, ends


def assert_parts_stay(graphs, step, arrays, strategy, spec):
    """Workers send no more than in another step but numbers, or sums of rows, and put nothing large together."""
    with InProcessCluster(step, arrays, strategy, spec) as cluster:
        usual = [worker.graph for worker in cluster.workers]
    for graph, other in zip(graphs, usual, strict=True):
        more = sum(one.size_bytes for one in graph.exchanged) - sum(one.size_bytes for one in other.exchanged)
        assert more <= 8 * 2 * len(graph.variables)
        known = {point.name for point in other.points}
        new = [point for point in graph.points if point.name not in known and point.variable is None]
        assert all(point.shapes[0] is None or np.prod(point.shapes[0]) <= WIDE for point in new)
        assert not [node.name for node in graph.graph_def.node if node.name.startswith("autodist/values")]
        joins = [
            [n.name for n in found.graph_def.node if n.op == "ConcatV2" and "/buffer" not in n.name]
            for found in (graph, other)
        ]
        assert len(joins[0]) <= len(joins[1]) + sum(point.shapes[0] is None for point in new)


def _joins_tensors(node):
    return node.op == "ConcatV2" and "/buffer" not in node.name


OPTIMIZERS = {
    "clipnorm": lambda **k: optimizers.SGD(0.05, momentum=0.9, clipnorm=0.05, **k),
    "global_clipnorm": lambda **k: optimizers.Adam(0.05, epsilon=1e-2, global_clipnorm=0.05, **k),
    "Lamb": lambda **k: optimizers.Lamb(0.05, epsilon=1e-2, **k),
    "Adafactor": lambda **k: optimizers.Adafactor(0.05, **k),
    "accumulation": lambda **k: optimizers.Adam(0.05, epsilon=1e-2, gradient_accumulation_steps=2, **k),
    "accumulation, one norm": lambda **k: optimizers.SGD(
        0.05, momentum=0.9, gradient_accumulation_steps=2, global_clipnorm=0.05, **k
    ),
    "averages": lambda **k: optimizers.SGD(
        0.05, momentum=0.9, use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2, **k
    ),
    "loss scale": lambda **k: optimizers.LossScaleOptimizer(
        optimizers.SGD(0.05, momentum=0.9), initial_scale=4.0, dynamic_growth_steps=2, **k
    ),
}
QUICK = ("global_clipnorm", "Lamb", "Adafactor", "accumulation", "averages", "loss scale")
OTHERS = {  # without which weights would be others
    "clipnorm": lambda made: setattr(made, "clipnorm", None),
    "global_clipnorm": lambda made: setattr(made, "global_clipnorm", None),
    "accumulation": lambda made: setattr(made, "gradient_accumulation_steps", None),
    "accumulation, one norm": lambda made: setattr(made, "global_clipnorm", None),
    "averages": lambda made: setattr(made, "ema_overwrite_frequency", None),
}


@pytest.mark.parametrize(
    ("strategy", "spec"),
    [(COLUMNS, TWO), *(pytest.param(*given, marks=pytest.mark.slow) for given in ((ROWS, TWO), (GROUPS, FOUR)))],
    ids=["columns", "rows", "groups"],
)
@pytest.mark.parametrize("name", slow_but(QUICK, OPTIMIZERS))
def test_each_replica_updates_its_parts(name, strategy, spec):
    keras.utils.set_random_seed(0)
    model, optimizer = perceptron(), OPTIMIZERS[name]()
    step = by_optimizer(model, optimizer)
    variables = [*model.variables, *optimizer.variables]
    graphs, ends = trains_as_one_device(step, variables, data_of(model, 4), strategy, spec)

    keras.utils.set_random_seed(0)
    other = perceptron()
    assert_parts_stay(graphs, by_optimizer(other, optimizers.SGD(0.1)), data_of(other, 1)[0], strategy, spec)
    if "norm" in name:  # the norms of all variables travel in one message
        norms = [node.input[0] for node in graphs[0].graph_def.node if OF_PARTS in node.attr]
        assert len(norms) > 1
        assert len({tensor.partition("/shaped/")[0] for tensor in norms}) == 1
    kernels = [v.path for v in variables if len(v.shape) > 1]  # with their slots, accumulators and averages
    assert set(kernels) <= {v.piece.whole for v in graphs[0].variables if v.piece is not None}
    assert not [v.name for v in graphs[0].variables if v.shape == (WIDE, WIDE)], "slots are in parts as well"
    if name in OTHERS:
        keras.utils.set_random_seed(0)
        free, larger = perceptron(), OPTIMIZERS[name]()
        OTHERS[name](larger)
        _, _, after = alone(by_optimizer(free, larger), [v.value for v in free.variables], data_of(free, 4))
        others = [np.abs(value - ends[v.path]).max() for v, value in zip(model.variables, after, strict=True)]
        assert max(others) > 1e-3


@pytest.mark.parametrize("strategy", BY_BOTH, ids=["columns", "rows"])
def test_a_gradient_that_is_not_finite_anywhere_halves_the_scale_everywhere(strategy):
    """Only one element of one example is too large."""
    keras.utils.set_random_seed(0)
    model = perceptron()
    optimizer = optimizers.LossScaleOptimizer(optimizers.Adam(0.05, epsilon=1e-2), initial_scale=64.0)
    step = by_optimizer(model, optimizer)
    data = data_of(model, 3)
    data[1][1][3, 5] = 3e38
    scale = next(v for v in optimizer.variables if "dynamic_scale" in v.path)
    variables = [*model.variables, *optimizer.variables]
    _, ends = trains_as_one_device(step, variables, data, strategy, TWO)
    assert ends[scale.path] == 32.0
    assert ends[optimizer.inner_optimizer.iterations.path] == 2


def plain(seed=0, dtype="float64"):
    numbers = np.random.default_rng(seed)
    shapes = {"one/kernel": (12, WIDE), "one/bias": (WIDE,), "two/kernel": (WIDE, 6), "two/bias": (6,)}
    return [tf.Variable(numbers.normal(size=s) * 0.2, dtype=dtype, name=name) for name, s in shapes.items()]


def loss_of(variables, x, y):
    kernel, bias, last, end = variables
    return tf.reduce_mean(tf.square(tf.tanh(x @ kernel + bias) @ last + end - y))


def step_of(update, variables):
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)
        return [loss, *(update(variables, tape.gradient(loss, variables)) or ())]

    return step


def assigned(variables, gradients, rate=0.5):
    for variable, gradient in zip(variables, gradients, strict=True):
        variable.assign_sub(rate * gradient)


def by_global_norm(variables, gradients):
    clipped, norm = tf.clip_by_global_norm(gradients, 0.1)
    assigned(variables, clipped)
    return [norm]


def by_norm(variables, gradients):
    assigned(variables, [tf.clip_by_norm(gradient, 0.05) for gradient in gradients])
    return [tf.linalg.global_norm(gradients)]


def by_largest(variables, gradients):
    """Also the least, the mean and the product of what is near 1."""
    for variable, gradient in zip(variables, gradients, strict=True):
        most, least = tf.reduce_max(tf.abs(gradient)), tf.reduce_min(gradient, keepdims=True)
        mean, near = tf.reduce_mean(gradient), tf.reduce_prod(1 + 0.01 * gradient)
        variable.assign_sub(0.05 * gradient / most + 0.1 * least + 0.1 * mean * near)
    return []


def by_norms(variables, gradients):
    """The norm of each, and whether all are finite and any is large, in whose place there are zeros."""
    for variable, gradient in zip(variables, gradients, strict=True):
        good = tf.reduce_all(tf.math.is_finite(gradient)) & ~tf.reduce_any(tf.abs(gradient) > 1e3)
        variable.assign_sub(tf.where(good, gradient / (1 + tf.norm(gradient)), tf.zeros_like(gradient)))
        variable.assign_sub(0.01 * gradient / tf.raw_ops.EuclideanNorm(input=gradient, axis=[-1, 0][: gradient.ndim]))
    return []


def by_rows_and_columns(variables, gradients):
    """Norms of columns, which are returned as well, means of rows, and sums of the rows of another gradient."""
    for variable, gradient in zip(variables, gradients, strict=True):
        norm = tf.norm(gradient, axis=0, keepdims=True)
        variable.assign_sub(0.1 * gradient / (0.1 + norm) + 0.1 * tf.reduce_mean(gradient, -1, keepdims=True))
    variables[0].assign_sub(gradients[0] * tf.reduce_sum(gradients[2], 1))
    return [tf.norm(gradients[0], axis=0)]


@pytest.mark.parametrize("strategy", BY_BOTH, ids=["columns", "rows"])
@pytest.mark.parametrize(
    "update", [by_global_norm, by_norm, by_largest, by_norms, by_rows_and_columns], ids=lambda found: found.__name__
)
def test_updates_of_ones_own_with_numbers_of_all_gradients(update, strategy):
    variables = plain()
    step = step_of(update, variables)
    numbers = np.random.default_rng(1)
    data = [[numbers.normal(size=(n, width)) for width in (12, 6)] for n in (8, 7, 1)]
    graphs, _ = trains_as_one_device(step, variables, data, strategy, TWO, 1e-10)
    assert_parts_stay(graphs, step_of(assigned, plain()), data[0], strategy, TWO)
    assert {"one/kernel", "two/kernel"} <= {v.piece.whole for v in graphs[0].variables if v.piece is not None}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    "clip", [tf.clip_by_norm, lambda g, n: tf.clip_by_global_norm([g], n)[0][0]], ids=["own", "all"]
)
def test_rows_of_a_sparse_gradient_count_where_they_are(dim, clip):
    numbers = np.random.default_rng(0)
    table = tf.Variable(numbers.normal(size=(10, 8)), name="table")

    def step(ids, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids) - y))
        table.scatter_sub(tf.IndexedSlices(*unpacked(clip(tape.gradient(loss, table), 0.1))))
        return [loss]

    def unpacked(slices):
        return 3.0 * slices.values, slices.indices

    data = [[numbers.integers(0, 10, 8), numbers.normal(size=(8, 8))] for _ in range(2)]
    graphs, _ = trains_as_one_device(step, [table], data, f"Tiled(dims=['table={dim}'])", TWO, 1e-10)
    assert {v.name for v in graphs[0].variables} == {"table/shard_0", "table/shard_1"}


def test_slots_of_one_shape_belong_to_their_variables():
    """Of two kernels of one shape, one is cut along rows and one along columns; so are their slots."""
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((16,)), layers.Dense(16, name="a"), layers.Dense(16, name="b")])
    optimizer = optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.05)
    step = by_optimizer(model, optimizer)
    strategy = "Tiled(dims=['*a/kernel=0', '*b/kernel=1', '*=whole'])"
    variables = [*model.variables, *optimizer.variables]
    graphs, _ = trains_as_one_device(step, variables, data_of(model, 2), strategy, TWO)
    shapes = {v.piece.whole: v.shape for v in graphs[0].variables if v.piece is not None}
    assert shapes == {
        path: (8, 16) if "a" in re.split("[_/]", path) else (16, 8)
        for path in (v.path for v in variables)
        if "kernel" in path
    }


def test_a_number_that_a_slot_keeps_is_the_same_on_all_workers():
    """A mean norm of the gradients so far, by which all are divided."""
    variables, usual = plain(), tf.Variable(1.0, dtype="float64", name="usual")

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y)
        gradients = tape.gradient(loss, variables)
        usual.assign(0.5 * usual + 0.5 * tf.linalg.global_norm(gradients))
        assigned(variables, [gradient / usual for gradient in gradients])
        return [loss]

    numbers = np.random.default_rng(1)
    data = [[numbers.normal(size=(8, width)) for width in (12, 6)] for _ in range(3)]
    trains_as_one_device(step, [*variables, usual], data, ROWS, TWO, 1e-10)


# Branches -----------------------------------------------------------------------------------------------------------


def by_turns(counter):
    """Every other step one or the other, and what was done is used further on; one is inside of another."""

    def update(variables, gradients):
        kernel, bias, last, end = variables

        def plainly():
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_sub(0.5 * gradient)
            tf.cond(counter > 2, lambda: end.assign(end * 2.0), lambda: end.assign_sub(gradients[3]))
            return tf.reduce_sum(gradients[0]), tf.norm(kernel)

        def clipped():
            kernel.assign(0.9 * kernel - tf.clip_by_norm(gradients[0], 0.05))
            bias.assign_add(0.1 * bias.read_value())
            last.assign_sub(gradients[2])
            return tf.reduce_max(last), 1.0 / tf.cast(counter - counter, "float64")

        found = tf.cond(counter % 2 == 0, plainly, clipped)
        kernel.assign_sub(0.01 * gradients[0])
        bias.assign_sub(1e-3 * tf.where(tf.math.is_finite(found[1]), found[1], found[0]) * gradients[1])
        counter.assign_add(1)
        return list(found)

    return update


@pytest.mark.parametrize("strategy", BY_BOTH, ids=["columns", "rows"])
def test_branches_that_change_variables(strategy):
    variables, counter = plain(), tf.Variable(0, name="counter")
    step, numbers = step_of(by_turns(counter), variables), np.random.default_rng(1)
    data = [[numbers.normal(size=(n, width)) for width in (12, 6)] for n in (8, 7, 8, 1, 8)]
    graphs, ends = trains_as_one_device(step, [*variables, counter], data, strategy, TWO, 1e-10)
    assert ends["counter"] == 5
    assert {"one/kernel", "two/kernel"} <= {v.piece.whole for v in graphs[0].variables if v.piece is not None}


@pytest.mark.parametrize(
    "used", [lambda x, one, slow: (x @ (one - slow)) ** 2, lambda x, one, slow: tf.reduce_sum(slow**2, 0) * one**2]
)
def test_what_losses_are_computed_from_is_whole_if_it_only_follows(used):
    """Such as a slow encoder, or the norms of its columns: each worker needs all of it."""
    variables, slow = plain(), tf.Variable(plain(1)[0], name="slow")

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(variables, x, y) + tf.reduce_mean(used(x, variables[0], slow))
        assigned(variables, tape.gradient(loss, variables))
        slow.assign(0.9 * slow + 0.1 * variables[0])
        return [loss]

    numbers = np.random.default_rng(1)
    data = [[numbers.normal(size=(8, width)) for width in (12, 6)] for _ in range(3)]
    graphs, _ = trains_as_one_device(step, [*variables, slow], data, ROWS, TWO, 1e-10)
    assert {v.name for v in graphs[0].variables} > {"slow", "one/kernel/shard_0"}
