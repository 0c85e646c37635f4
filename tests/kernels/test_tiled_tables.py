"""Tables of which each replica has some rows: weights are those of one device, lookups and gradients stay by rows."""

from collections import Counter

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.graph.layouts import tile_exchanges

from . import single

layers = keras.layers
WORDS, WIDTH, LENGTH = 9600, 12, 2


def separate():
    given = keras.Input((LENGTH,), dtype="int32")
    hidden = layers.LayerNormalization()(layers.Embedding(WORDS, WIDTH)(given))
    return keras.Model(given, layers.Dense(WORDS)(layers.Dense(WIDTH, activation="tanh")(hidden)))


def tied():
    given, table = keras.Input((LENGTH,), dtype="int32"), layers.ReversibleEmbedding(WORDS, WIDTH)
    hidden = layers.Dense(WIDTH, activation="tanh")(layers.LayerNormalization()(table(given)))
    return keras.Model(given, table(hidden, reverse=True))


def step_of(model, optimizer):
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x, y):
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    return step


def of_one_device(step, variables, data):
    """Losses and values of one device; the variables are set back."""
    before = [v.numpy() for v in variables]
    compiled = tf.function(step)
    losses = [compiled(*map(tf.constant, arrays)).numpy() for arrays in data]
    after = [v.numpy() for v in variables]
    for variable, value in zip(variables, before, strict=True):
        variable.assign(value)
    return losses, before, after


def words(rows, seed=0):
    numbers = np.random.default_rng(seed)
    return [[numbers.integers(0, WORDS, (rows, LENGTH)).astype(np.int32) for _ in range(2)] for _ in range(2)]


# With Adam's own epsilon, one device differs from itself by 7e-6 between two libraries of matrix products, nearly the
# bound of these tests: where a gradient is next to nothing, its round-off is divided by next to nothing.
OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.5, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.05, epsilon=1e-5),
}


TABLE, COLUMNS, HEAD = "*/embeddings=0", "*/embeddings=1", "dense*/kernel=1"


@pytest.mark.parametrize(
    ("build", "dims", "optimizer"),
    [
        (separate, (TABLE, HEAD, "*=whole"), "adam"),
        (tied, (TABLE, "*=whole"), "sgd"),
        pytest.param(separate, (COLUMNS, HEAD, "*=whole"), "adam", marks=pytest.mark.slow),
        pytest.param(separate, (COLUMNS, "*=whole"), "sgd", marks=pytest.mark.slow),
        pytest.param(separate, (TABLE, "*=whole"), "adam", marks=pytest.mark.slow),
        pytest.param(separate, (TABLE, HEAD), "sgd", marks=pytest.mark.slow),
        pytest.param(tied, (TABLE, "*=whole"), "adam", marks=pytest.mark.slow),
        pytest.param(tied, (COLUMNS, "*=whole"), "sgd", marks=pytest.mark.slow),
    ],
)
def test_each_replica_looks_up_its_part(build, dims, optimizer):
    looks_up_as_one_device(build, dims, optimizer, [3, 0, 4])


def test_parts_of_rows_and_classes_may_be_unequal():
    """Of 9600 words, some of 7 replicas have one row more than the others."""
    looks_up_as_one_device(separate, (TABLE, HEAD, "*=whole"), "adam", [1, 0, 2, 1, 1, 1, 1])


def looks_up_as_one_device(build, dims, optimizer, sizes):
    keras.utils.set_random_seed(0)
    model, rule = build(), OPTIMIZERS[optimizer]()
    rule.build(model.trainable_variables)
    step, data = step_of(model, rule), words(7)
    everything = [*model.variables, *rule.variables]
    losses, before, after = of_one_device(step, [v.value for v in everything], data)

    ran = single.run(step, data, sizes, strategy=f"Tiled(dims={dims!r})")

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    assert not ran.warnings
    named = {v.path: (b, a) for v, b, a in zip(everything, before, after, strict=True)}
    for name, value in ran.variables.items():
        expected = named[name][1]
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5 * max(1.0, np.abs(expected).max()))
    [table] = [v.path for v in model.trainable_variables if v.path.endswith("embeddings")]
    assert np.abs(ran.variables[table] - named[table][0]).max() > 1e-3


@pytest.mark.parametrize(("build", "dims"), [(separate, (TABLE, HEAD, "*=whole")), (tied, (TABLE, "*=whole"))])
def test_logits_and_tables_stay_where_they_are(build, dims):
    model, rule = build(), keras.optimizers.SGD(0.5)
    rule.build(model.trainable_variables)
    step, data = step_of(model, rule), words(6)
    captured = capture(step, single.specs_of(data[0]), VariableNames()).graph
    tiled = {v.name: 0 for v in captured.trainable if v.name.endswith("embeddings")}
    tiled |= {v.name: 1 for v in captured.trainable if v.name.endswith("kernel") and HEAD in dims}

    exchanged = tile_exchanges(captured, tiled, 3, 1024)

    rows = 1024 * LENGTH
    assert max(one.size_bytes for one in exchanged) <= rows * WIDTH * 4
    graph = single.rewritten(step, data[0], 3, f"Tiled(dims={dims!r})")[1]
    made = [one for one in graph.exchanged if "autodist/partition" not in one.node]  # numbers, in a form of their own
    assert Counter(one.how for one in exchanged) == Counter(one.how for one in made)


def test_rows_are_looked_up_by_handles_too():
    """A table that nothing reads as a whole; and a number that no row has is an error, as on one device."""
    numbers = np.random.default_rng(0)
    table = tf.Variable(numbers.normal(size=(WORDS, WIDTH)).astype(np.float32), name="table")

    def step(x, y):
        with tf.GradientTape() as tape:
            found = tf.nn.embedding_lookup(table, x)
            loss = tf.reduce_mean(tf.reduce_sum(tf.square(found - tf.cast(y, tf.float32)[..., None]), [1, 2]))
        gradient = tape.gradient(loss, table)
        table.assign_sub(0.1 * tf.convert_to_tensor(gradient))
        return loss

    data, sizes = words(5), [2, 3]
    losses, _, after = of_one_device(step, [table], data)
    ran = single.run(step, data, sizes, strategy="Tiled(dims=('table*=0',))")
    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    [value] = ran.variables.values()
    np.testing.assert_allclose(value, after[0], rtol=1e-5, atol=1e-5)

    with pytest.raises(tf.errors.InvalidArgumentError, match="is not in"):
        single.run(
            step, [[np.full((5, LENGTH), WORDS, np.int32), data[0][1]]], sizes, strategy="Tiled(dims=('table*=0',))"
        )


LOOKUPS = {
    "by handle": lambda table, x, y: tf.nn.embedding_lookup(table, x),
    "twice": lambda table, x, y: tf.gather(table, x) * tf.nn.embedding_lookup(table, y),
}


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("kind", LOOKUPS)
def test_replicas_have_parts_of_the_columns_of_a_table_whose_gradient_is_rows(kind, dim):
    numbers = np.random.default_rng(0)
    table = tf.Variable(numbers.normal(size=(30, 4, 3)), name="table")

    def step(x, y):
        with tf.GradientTape() as tape:
            found = tf.sin(LOOKUPS[kind](table, x, y)) * tf.cast(y, tf.float64)[..., None, None]
            loss = tf.reduce_mean(tf.reduce_sum(found**2, [1, 2, 3]))
        gradient = tape.gradient(loss, table)
        table.scatter_sub(tf.IndexedSlices(1e-4 * gradient.values, gradient.indices))
        return loss

    data = [[numbers.integers(0, 30, (7, 2)).astype(np.int32) for _ in range(2)] for _ in range(2)]
    losses, [before], [after] = of_one_device(step, [table], data)
    strategy = f"Tiled(dims=('table={dim}',))"
    exchanged = single.rewritten(step, data[0], 3, strategy, batch_size=7)[1].exchanged
    assert not [one for one in exchanged if one.size_bytes > 150], "numbers travel; rows and their gradients do not"
    ran = single.run(step, data, [3, 0, 4], strategy=strategy, batch_size=7)
    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-12)
    [value] = ran.variables.values()
    np.testing.assert_allclose(value, after, rtol=1e-12, atol=1e-12)
    assert np.abs(after - before).max() > 1e-3


@pytest.mark.parametrize("sizes", [[4, 4], [3, 2, 3]], ids=str)
def test_a_gradient_of_unknown_length_is_as_long_as_what_it_is_added_to(sizes):
    """Of a window of columns whose place comes from the batch: TensorFlow does not know how far it is padded."""
    numbers = np.random.default_rng(0)
    start = numbers.normal(size=(12, 3000)).astype("float32")  # large beside the batch: products of parts travel
    big = tf.Variable(start, name="big")

    def step(x, at):
        with tf.GradientTape() as tape:
            window = tf.slice(big, [0, at[0]], [12, 5])
            loss = tf.reduce_mean((x @ window) ** 2) + tf.reduce_mean((x @ big) ** 2)
        big.assign_sub(0.1 * tape.gradient(loss, big))
        return loss

    data = [[numbers.normal(size=(8, 12)).astype("float32"), np.full(8, at, np.int32)] for at in (3, 20)]
    losses, before, [after] = of_one_device(step, [big], data)

    ran = single.run(step, data, sizes, strategy="Tiled(dims=('big=1',))")

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    np.testing.assert_allclose(ran.variables["big"], after, rtol=1e-5, atol=1e-6)
    assert np.abs(after - before[0]).max() > 1e-2
