"""How often values are fetched, and how many rows an example has, as the graph tells."""

import doctest

import keras
import pytest
import tensorflow as tf

import autodist.graph.analysis._uses as module
from autodist.graph import VariableNames, VariableUse, capture


def uses(step, *specs):
    return capture(step, specs, VariableNames()).graph.uses


def trained(model, regularized=False):
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_variables)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True)) + (tf.add_n(model.losses) if regularized else 0.0)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return step


def test_docstring_examples():
    assert doctest.testmod(module).failed == 0
    assert doctest.testmod(module).attempted


def test_updates_read_at_home():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(2)])
    found = uses(trained(model), tf.TensorSpec([8, 4]))
    assert len(found) == 4
    assert all(use.reads == 1 and not use.gradient_rows for use in found.values())


def test_a_regularizer_reads_once_more():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, kernel_regularizer="l2")])
    found = uses(trained(model, regularized=True), tf.TensorSpec([8, 4]))
    assert {name.rpartition("/")[2]: use.reads for name, use in found.items()} == {"kernel": 2, "bias": 1}


@pytest.mark.parametrize(("dtype", "index_bytes"), [("int32", 4), ("int64", 8)])
def test_keras_lookups_take_rows_by_example(dtype, index_bytes):
    layers = [keras.layers.Embedding(50, 4), keras.layers.Flatten(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((6,), dtype=dtype), *layers])
    found = uses(trained(model), tf.TensorSpec([8, 6], dtype))
    (table,) = (use for name, use in found.items() if "embedding" in name)
    assert (table.reads, table.lookup_rows, table.gradient_rows, table.is_guess) == (0, 6.0, 6.0, False)
    assert table.index_bytes in (4, index_bytes)


def test_lookups_in_one_table_add_up():
    table = tf.Variable(tf.ones([50, 4]), name="table")

    def step(x, ids, id):
        with tf.GradientTape() as tape:
            rows = tf.nn.embedding_lookup(table, ids)
            loss = tf.reduce_mean(rows * x[:, None, :]) + tf.reduce_mean(tf.gather(table, id))
        table.scatter_sub(tape.gradient(loss, table))
        return loss

    specs = [tf.TensorSpec([8, 4]), tf.TensorSpec([8, 3], tf.int64), tf.TensorSpec([8], tf.int64)]
    assert uses(step, *specs) == {"table": VariableUse(0, 4.0, 4.0, False, 8)}


def test_sampled_classes_are_rows_of_each_replica():
    table = tf.Variable(tf.ones([50, 4]), name="table")

    def step(labels, sampled):
        with tf.GradientTape() as tape:
            ids = tf.concat([tf.reshape(labels, [-1]), sampled[0]], 0)
            loss = tf.reduce_mean(tf.nn.embedding_lookup(table, ids))
        table.scatter_sub(tape.gradient(loss, table))
        return loss

    found = uses(step, tf.TensorSpec([None, 3], tf.int64), tf.TensorSpec([None, 7], tf.int64))["table"]
    assert (found.lookup_rows, found.gradient_rows, found.is_guess) == (3.0, 3.0, False)
    assert (found.fixed_lookup_rows, found.fixed_gradient_rows) == (7.0, 7.0)


def test_rows_that_the_shapes_do_not_tell_are_a_guess():
    table = tf.Variable(tf.ones([50, 4]), name="table")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.embedding_lookup(table, tf.boolean_mask(ids, ids > 0)))
        table.scatter_sub(tape.gradient(loss, table))
        return loss

    found = uses(step, tf.TensorSpec([8, 3], tf.int64))["table"]
    assert (found.lookup_rows, found.is_guess) == (1.0, True)


def test_a_whole_read_of_a_table_travels():
    table = tf.Variable(tf.ones([50, 4]), name="table")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.embedding_lookup(table, ids)) + 0.1 * tf.reduce_sum(tf.square(table))
        table.assign_sub(tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    found = uses(step, tf.TensorSpec([8], tf.int64))["table"]
    assert (found.reads, found.lookup_rows, found.gradient_rows) == (1, 1.0, 0)


def test_reads_that_wait_for_an_update_are_told_apart():
    w = tf.Variable(tf.ones([4, 1]), name="w")

    def step(x):
        for _ in range(2):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x @ w)) + 0.1 * tf.reduce_sum(tf.square(w.read_value()))
            w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    found = uses(step, tf.TensorSpec([8, 4]))["w"]
    assert (found.reads, found.later_reads) == (4, 2)
