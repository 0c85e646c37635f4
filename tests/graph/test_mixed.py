"""Which gradients are sums of rows that were looked up and of something dense."""

import keras
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture, mixed_gradients

ROWS, WIDTH, LENGTH = 11, 3, 4


def of_table(loss, dtype="float32"):
    """The step that trains one table by a loss of it and of row numbers."""
    table = tf.Variable(tf.ones([ROWS, WIDTH], dtype), name="table")

    def step(ids):
        with tf.GradientTape() as tape:
            value = loss(table, ids)
        table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(value, table)))

    return capture(step, [tf.TensorSpec([8, LENGTH], tf.int32)], VariableNames()).graph


def scores(rows, table):
    return tf.reduce_mean(tf.matmul(rows, table, transpose_b=True) ** 2)


def tied(table, ids):
    return scores(tf.nn.embedding_lookup(table, ids), table)


MIXED = {
    "embedding_lookup": tied,
    "gather": lambda table, ids: scores(tf.gather(tf.convert_to_tensor(table), ids), table),
    "transposed": lambda table, ids: tf.reduce_mean(tf.gather(table, ids) @ tf.transpose(table)),
    "sum": lambda table, ids: 8 * LENGTH * tied(table, ids),
    "regularized": lambda table, ids: tied(table, ids) + tf.nn.l2_loss(table),
}


@pytest.mark.parametrize("loss", MIXED.values(), ids=MIXED)
def test_tables_that_are_looked_up_in_and_multiplied_with_have_mixed_gradients(loss):
    graph = of_table(loss)
    (gradient,) = mixed_gradients(graph, "table")
    assert gradient.mark == graph.variable("table").gradients[0].dense
    assert len(gradient.rows) == 1
    assert len(gradient.others) == (2 if loss is MIXED["regularized"] else 1)
    assert graph.uses["table"].mixed_rows == LENGTH


def test_every_lookup_is_a_term():
    graph = of_table(lambda table, ids: tied(table, ids) + tf.reduce_mean(tf.gather(table, ids[:, :1])))
    (gradient,) = mixed_gradients(graph, "table")
    numbers = {graph.analysis.nodes[rows.values].name for rows in gradient.rows}
    assert numbers
    assert graph.uses["table"].mixed_rows == LENGTH + 1


NOT_MIXED = {
    "lookups": lambda table, ids: tf.reduce_mean(tf.gather(table, ids) ** 2),
    "products": lambda table, ids: tf.reduce_mean(tf.cast(ids, tf.float32) @ table[:LENGTH]),
    "regularized lookups": lambda table, ids: tf.reduce_mean(tf.gather(table, ids)) + tf.nn.l2_loss(table),
}


@pytest.mark.parametrize("loss", NOT_MIXED.values(), ids=NOT_MIXED)
def test_others_are_not(loss):
    graph = of_table(loss)
    assert mixed_gradients(graph, "table") == ()
    assert graph.uses["table"].mixed_rows == 0


def test_a_gradient_that_replicas_compute_with_stays_whole():
    table = tf.Variable(tf.ones([ROWS, WIDTH]), name="table")

    def step(ids):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                loss = tied(table, ids)
            slope = tf.convert_to_tensor(inner.gradient(loss, table))
            loss += tf.reduce_mean(tf.gather(slope, ids) ** 2)
        table.assign_sub(0.1 * tf.convert_to_tensor(outer.gradient(loss, table)))

    graph = capture(step, [tf.TensorSpec([8, LENGTH], tf.int32)], VariableNames()).graph
    inner, *_ = graph.variable("table").gradients
    assert inner.dense is not None
    assert inner.dense not in {gradient.mark for gradient in mixed_gradients(graph, "table")}


def test_a_gradient_that_the_step_looks_at_stays_whole():
    table = tf.Variable(tf.ones([ROWS, WIDTH]), name="table")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tied(table, ids)
        gradient = tf.convert_to_tensor(tape.gradient(loss, table))
        table.assign_sub(0.1 * gradient)
        return tf.norm(gradient)

    graph = capture(step, [tf.TensorSpec([8, LENGTH], tf.int32)], VariableNames()).graph
    assert mixed_gradients(graph, "table") == ()
    assert graph.uses["table"].mixed_rows == 0


def test_keras_layers_that_share_a_table():
    embedding = keras.layers.Embedding(ROWS, WIDTH, name="tokens")
    ids = keras.Input((LENGTH,), dtype="int32")
    hidden = keras.layers.Dense(WIDTH)(embedding(ids))
    model = keras.Model(ids, hidden)
    optimizer = keras.optimizers.Adam()

    def step(batch):
        with tf.GradientTape() as tape:
            logits = keras.ops.matmul(model(batch), keras.ops.transpose(embedding.embeddings))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch, logits)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss

    graph = capture(step, [tf.TensorSpec([8, LENGTH], tf.int32)], VariableNames()).graph
    (name,) = (v.name for v in graph.trainable if v.shape == (ROWS, WIDTH))
    assert len(mixed_gradients(graph, name)) == 1
    assert graph.uses[name].mixed_rows == LENGTH
