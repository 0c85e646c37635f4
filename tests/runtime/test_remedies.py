"""What refusals of steps advise is done here, word by word, and trains as one device does."""

import keras
import pytest
import tensorflow as tf

from autodist.errors import CaptureError
from autodist.strategies import StrategyBuilder

from .remedies import IDS, Y, assert_trains, batches, found_by, square, variable


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


BUILDERS: list[StrategyBuilder] = []
