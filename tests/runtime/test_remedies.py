"""What refusals advise is done here, word by word, and trains as one device does."""

import contextlib
from dataclasses import dataclass, replace
from typing import ClassVar

import keras
import numpy as np
import pytest
import tensorflow as tf
from certify.partitioned.strategies import InParts

import autodist
from autodist.errors import CaptureError, StrategyError, UsageError
from autodist.strategies import PS, AllReduce, PSSynchronizer, Strategy, StrategyBuilder

from .programs import TWO

v1 = tf.compat.v1
X = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
Y = X.sum(axis=1, keepdims=True)
IDS = np.random.default_rng(1).integers(0, 5, 24)


class Plain:
    """What a program uses of AutoDist, without AutoDist."""

    function = staticmethod(tf.function)
    shard = staticmethod(lambda dataset: dataset)


def batches(*tensors):
    return tf.data.Dataset.from_tensor_slices(tensors or (X, Y)).batch(8)


def variable(*shape):
    return tf.Variable(tf.reshape(tf.linspace(0.1, 0.5, int(np.prod(shape))), shape))


def square(error):
    return tf.reduce_mean(tf.square(error))


def found_by(program, *args, **options):
    """What a program finds: in a scope of two replicas by `options`, or without one where there are none."""
    keras.utils.set_random_seed(1)
    with autodist.scope(**TWO, **options) if options else contextlib.nullcontext(Plain) as ad:
        return [np.asarray(value) for value in tf.nest.flatten(program(ad, *args))]


def assert_trains(program, *args, **options):
    expected = found_by(program, *args)
    assert any(np.ptp(value) > 1e-3 for value in expected)
    for one, other in zip(expected, found_by(program, *args, **options), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


# Second derivatives --------------------------------------------------------------------------------------------------


def penalized(ad, inner_gradient):
    """A loss with a penalty on a gradient by looked-up rows."""
    table, scale, optimizer = variable(5, 2), tf.Variable(2.0), keras.optimizers.SGD(0.01)

    @ad.function
    def step(ids):
        with tf.GradientTape() as tape:
            penalty = inner_gradient(table, scale, ids)
            loss = square(scale * tf.nn.embedding_lookup(table, ids)) + tf.reduce_sum(tf.square(penalty))
        variables = [table, scale]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [step(ids) for (ids,) in ad.shard(batches(IDS))]
    return table, scale, losses


def through_the_table(table, scale, ids):
    with tf.GradientTape() as inner:
        value = tf.reduce_sum(scale * tf.square(tf.nn.embedding_lookup(table, ids)))
    return inner.gradient(value, table).values


def stopped(table, scale, ids):
    return scale * tf.stop_gradient(through_the_table(table, scale, ids))


def by_the_rows(table, scale, ids):
    with tf.GradientTape() as inner:
        rows = tf.nn.embedding_lookup(table, ids)
        inner.watch(rows)
        value = tf.reduce_sum(scale * tf.square(rows))
    return inner.gradient(value, rows)


@pytest.mark.parametrize("strategy", ["AllReduce", "PartitionedPS"])
@pytest.mark.parametrize("remedy", [stopped, by_the_rows])
def test_a_second_derivative_through_a_sparse_gradient(remedy, strategy):
    with pytest.raises(CaptureError, match="a second derivative goes through a sparse gradient"):
        found_by(penalized, through_the_table, strategy=strategy)
    assert_trains(penalized, remedy, strategy=strategy)


def normalized(ad, layer, call):
    kernel, optimizer, normalize = (
        tf.Variable(np.eye(4, 4, 1) - np.eye(4), dtype="float32"),
        keras.optimizers.SGD(0.001),
        layer(),
    )
    normalize.build((None, 4))

    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = call(lambda h: normalize(h @ kernel, training=True), x)
        variables = [kernel, *normalize.trainable_variables]
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    losses = [step(x) for x, _ in ad.shard(batches())]
    return kernel, losses, list(normalize.variables)


def with_a_penalty(normalize, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_sum(tf.square(normalize(x) + x), axis=1)
    return tf.reduce_mean(value + tf.reduce_sum(tf.square(tape.gradient(value, x)), axis=1))


def in_a_branch(normalize, x):
    return square(tf.cond(tf.shape(x)[0] > 3, lambda: normalize(x) + x, lambda: x))


def before_the_branch(normalize, x):
    hidden = normalize(x)
    return square(tf.cond(tf.shape(x)[0] > 3, lambda: hidden + x, lambda: x))


@pytest.mark.parametrize("layer", [keras.layers.LayerNormalization, lambda: keras.layers.GroupNormalization(2)])
def test_a_second_derivative_through_a_normalization(layer):
    with pytest.raises(CaptureError, match="second derivative goes through synchronized batch normalization"):
        found_by(normalized, keras.layers.BatchNormalization, with_a_penalty, batch_norm="synchronized")
    assert_trains(normalized, layer, with_a_penalty, batch_norm="synchronized")


def test_a_synchronized_batch_normalization_in_a_branch():
    layer = keras.layers.BatchNormalization
    with pytest.raises(CaptureError, match="batch normalization is synchronized inside control flow"):
        found_by(normalized, layer, in_a_branch, batch_norm="synchronized")
    assert_trains(normalized, layer, before_the_branch, batch_norm="synchronized")


# Variables that are written while examples are computed ---------------------------------------------------------------


def counted(ad, computed):
    weight, count, optimizer = variable(4, 1), tf.Variable(0), keras.optimizers.SGD(0.1)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = square(computed(x, count) @ weight - y)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    losses = [step(*batch) for batch in ad.shard(batches())]
    return weight, count, losses


def counting_each(x, count):
    def example(row):
        count.assign_add(1)
        return row * 2

    return tf.map_fn(example, x)


def counting_all(x, count):
    count.assign_add(tf.shape(x)[0])
    return tf.map_fn(lambda row: row * 2, x)


def test_a_variable_that_is_changed_example_by_example():
    """Where replicas share the step, all of them change it alike; else the remedy is to change it once."""
    assert_trains(counted, counting_each, strategy="AllReduce")
    with pytest.raises(CaptureError, match="while it computes something from the examples"):
        found_by(counted, counting_each, strategy="AllReduce", gradient_reduction="mean")
    assert_trains(counted, counting_all, strategy="AllReduce", gradient_reduction="mean")


# Lookup tables -------------------------------------------------------------------------------------------------------


def looking_up(ad, make_table, prepare, look_up):
    weight, optimizer, table = variable(5, 1), keras.optimizers.SGD(0.1), make_table()
    state = {"table": table, "offsets": tf.Variable(tf.zeros(5))}

    @ad.function
    def step(ids, y):
        with tf.GradientTape() as tape:
            loss = square(tf.gather(weight, look_up(state, ids)) - y)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    losses = [step(*batch) for batch in ad.shard(prepare(table, batches(IDS, Y)))]
    return weight, losses, state["offsets"]


def mutable():
    table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)
    table.insert(tf.range(5, dtype=tf.int64), tf.range(4, -1, -1, dtype=tf.int64))
    return table


def as_it_is(table, dataset):
    return dataset


def looked_up_before(table, dataset):
    return dataset.map(lambda ids, y: (table.lookup(ids), y))


def changing(state, ids):
    state["table"].insert(ids, ids % 5)
    return state["table"].lookup(ids)


def filled_before(state, ids):
    return state["table"].lookup(ids)


def with_a_variable(state, ids):
    state["offsets"].assign_add(tf.ones(5))
    return state["table"].lookup(ids)


def given(state, ids):
    return ids


@pytest.mark.parametrize(
    ("prepare", "look_up"), [(as_it_is, filled_before), (as_it_is, with_a_variable), (looked_up_before, given)]
)
def test_a_table_that_a_step_changes(prepare, look_up):
    with pytest.raises(CaptureError, match="the step changes a lookup table"):
        found_by(looking_up, mutable, as_it_is, changing, strategy="AllReduce")
    assert_trains(looking_up, mutable, prepare, look_up, strategy="AllReduce")


def test_a_table_of_rows():
    def rows():
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, tf.zeros(2))
        table.insert(tf.range(5, dtype=tf.int64), tf.reshape(tf.range(10.0), (5, 2)))
        return table

    values = tf.Variable(tf.reshape(tf.range(10.0), (5, 2)))

    def by_rows(state, ids):
        return tf.cast(state["table"].lookup(ids)[:, 0], tf.int32) // 2

    def by_numbers(state, ids):
        return tf.cast(tf.gather(values, state["table"].lookup(ids))[:, 0], tf.int32) // 2

    with pytest.raises(CaptureError, match="looks up values of 1 dims"):
        found_by(looking_up, rows, as_it_is, by_rows, strategy="AllReduce")
    assert_trains(looking_up, mutable, as_it_is, by_numbers, strategy="AllReduce")


# Several steps of a scope ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class InTurn(StrategyBuilder):
    """Builds for each step by the next of some builders."""

    name: ClassVar[str] = "InTurn"

    def build(self, graph, spec):
        return BUILDERS.pop(0).build(graph, spec)


@dataclass(frozen=True)
class Apart(StrategyBuilder):
    """Puts every variable at a server of its own."""

    name: ClassVar[str] = "Apart"

    def build(self, graph, spec):
        built = PS().build(graph, spec)
        configs = [
            replace(
                c, shards=(replace(c.shards[0], synchronizer=PSSynchronizer(f"localhost:CPU:{_last(c.variable)}")),)
            )
            for c in built.variables
        ]
        return Strategy(built.graph, tuple(configs))


BUILDERS: list[StrategyBuilder] = []


def _last(name):
    return int(name.rstrip("#1").endswith("second"))


def two_trained(ad, *clipped, scopes=False):
    """Two variables, which steps train together, by the norm of both, or apart from each other."""
    first, second = tf.Variable(tf.fill((4, 1), 0.2), name="first"), tf.Variable(tf.fill((4, 1), 0.1), name="second")

    def step_of(norm):
        optimizer = keras.optimizers.SGD(0.1, global_clipnorm=norm)
        optimizer.build([first, second])

        @tf.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = square(x @ (first + second) - y)
            optimizer.apply_gradients(zip(tape.gradient(loss, [first, second]), [first, second], strict=True))
            return loss

        return step

    steps, losses = [step_of(norm) for norm in clipped], []
    for batch in batches():
        for step in steps:
            with autodist.scope(**TWO, strategy=scopes) if scopes else contextlib.nullcontext():
                losses.append(step(*batch).numpy())
    return first.numpy(), second.numpy(), losses


def test_one_kind_of_synchronizer_for_a_variable():
    BUILDERS[:] = [PS(), AllReduce()]
    with pytest.raises(StrategyError, match=r"all-reduced.*in this step, but lives at .* since an earlier step"):
        found_by(two_trained, None, None, strategy=InTurn())
    BUILDERS[:] = [PS(), PS()]
    assert_trains(two_trained, None, None, strategy=InTurn())
    expected = two_trained(Plain, None, None)
    for one, other in zip(expected, two_trained(Plain, None, None, scopes="PS"), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5)


def test_variables_that_a_later_step_trains_together():
    BUILDERS[:] = [Apart(), PS()]
    with pytest.raises(StrategyError, match="updates variables together that an earlier step keeps apart"):
        found_by(two_trained, None, 0.5, strategy=InTurn())
    assert_trains(two_trained, None, 0.5, strategy=AllReduce())
    BUILDERS[:] = [PS(), Apart()]
    assert_trains(two_trained, 0.5, None, strategy=InTurn())


@pytest.mark.parametrize("strategy", [InParts("servers"), InParts("collective")], ids=lambda built: built.laying)
def test_a_later_step_that_needs_a_whole_variable(strategy):
    def program(ad, *clipnorms, scopes=None):
        weight, losses = tf.Variable(tf.fill((160, 160), 0.01)), []
        x = np.random.default_rng(2).normal(size=(3, 8, 160)).astype("float32")

        def step_of(clipnorm):
            optimizer = keras.optimizers.SGD(0.1, clipnorm=clipnorm)
            optimizer.build([weight])

            @tf.function
            def step(batch):
                with tf.GradientTape() as tape:
                    loss = square(batch @ weight - batch)
                optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
                return loss

            return step

        steps = [step_of(clipnorm) for clipnorm in clipnorms]
        for batch in x:
            for step in steps:
                with autodist.scope(**TWO, strategy=scopes) if scopes else contextlib.nullcontext():
                    losses.append(step(batch).numpy())
        return weight.numpy(), losses

    with pytest.raises(StrategyError, match="partitioned in another step of the scope, and can't be in this one"):
        found_by(program, None, 0.01, strategy=strategy)
    assert_trains(program, None, 0.01, strategy="AllReduce")
    for one, other in zip(program(Plain, None, 0.01), program(Plain, None, 0.01, scopes=strategy), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)


# Sessions ------------------------------------------------------------------------------------------------------------


def in_a_session(build, cpus):
    """The losses and the weight of a graph in a session of so many replicas."""
    ad = autodist.AutoDist(spec=autodist.ResourceSpec.local(cpus=cpus))
    with tf.Graph().as_default(), ad.scope():
        weight = v1.get_variable("weight", [4, 1], initializer=v1.ones_initializer(), use_resource=True)
        return build(ad, weight)


def trained_in(ad, loss, weight, feeds):
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = ad.Session()
    session.run(v1.global_variables_initializer())
    losses = [session.run([loss, train], feed)[0] for feed in feeds]
    return [*losses, *session.run(weight).ravel()]


def fed_with_parts_of_a_sparse_tensor(ad, weight):
    """What lies in a sparse tensor, one value per row, is fed as its columns and its values."""
    columns, values = v1.placeholder(tf.int64, [None]), v1.placeholder(tf.float32, [None])
    loss = square(values * tf.gather(weight[:, 0], columns) - 2.0)
    return trained_in(
        ad, loss, weight, [{columns: IDS[:8] % 4, values: X[:8, 0]}, {columns: IDS[8:] % 4, values: X[8:, 0]}]
    )


def fed_instead_of_a_queue(ad, weight):
    x, y = v1.placeholder(tf.float32, [None, 4]), v1.placeholder(tf.float32, [None, 1])
    loss = square(x @ weight - y)
    return trained_in(ad, loss, weight, [{x: X[:8], y: 2 * Y[:8]}, {x: X[8:], y: 2 * Y[8:]}])


def drawn_from_an_iterator(ad, weight):
    iterator = v1.data.make_initializable_iterator(v1.data.Dataset.from_tensor_slices((X, 2 * Y)).batch(8))
    x, y = iterator.get_next()
    loss = square(x @ weight - y)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = ad.Session()
    session.run([v1.global_variables_initializer(), iterator.initializer])
    losses = [session.run([loss, train])[0] for _ in range(3)]
    return [*losses, *session.run(weight).ravel()]


@pytest.mark.parametrize("build", [fed_with_parts_of_a_sparse_tensor, fed_instead_of_a_queue, drawn_from_an_iterator])
def test_what_sessions_take_instead(build):
    one, two = in_a_session(build, 1), in_a_session(build, 2)
    np.testing.assert_allclose(two, one, rtol=1e-5)
    assert not np.allclose(two[-4:], 1.0)


# Data and arguments ---------------------------------------------------------------------------------------------------


def over(ad, dataset, computed):
    weight, optimizer = variable(6, 1), keras.optimizers.SGD(0.1)

    @ad.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = square(computed(weight, x) - y)
        optimizer.apply_gradients([(tape.gradient(loss, weight), weight)])
        return loss

    return weight, [step(*batch) for batch in dataset]


RAGGED = tf.RaggedTensor.from_row_lengths(tf.range(48) % 6, [1, 3] * 12)


@pytest.mark.parametrize(
    ("tensor", "dense", "computed"),
    [
        (RAGGED, lambda x, y: (x.to_tensor(), y), lambda w, x: tf.reduce_sum(tf.gather(w, x), axis=1)),
        (
            tf.sparse.from_dense(np.pad(X, ((0, 0), (0, 2)))),
            lambda x, y: (tf.sparse.to_dense(x), y),
            lambda w, x: x @ w,
        ),
    ],
    ids=["ragged", "sparse"],
)
def test_batches_that_are_not_dense_in_a_loop(tensor, dense, computed):
    dataset = batches(tensor, Y)
    with pytest.raises(UsageError, match=r"a batch is made of dense tensors"):
        found_by(over, dataset, computed, strategy="AllReduce")
    assert_trains(over, dataset.map(dense), computed, strategy="AllReduce")


def test_what_a_step_may_return():
    def program(ad, pack):
        weight = variable(4, 1)

        @ad.function
        def step(x, y):
            with tf.GradientTape() as tape:
                loss = square(x @ weight - y)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            return pack(loss)

        return weight, [step(*batch) for batch in ad.shard(batches())]

    with pytest.raises(CaptureError, match="returns something that is no tensor"):
        found_by(program, lambda loss: {"loss": loss, "by": object()}, strategy="AllReduce")
    assert_trains(program, lambda loss: {"loss": [loss, (loss * 2, 3)]}, strategy="AllReduce")
    assert found_by(program, lambda loss: None, strategy="AllReduce")[1] == np.array(None)
