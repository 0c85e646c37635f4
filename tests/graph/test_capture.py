"""What a capture says of a step: variables, roles, couplings, scalings, and what it refuses."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import CaptureError, FixedRowsError
from autodist.graph import BatchScaling, Role, StepAnalysis, VariableNames, capture, node_of

X = tf.TensorSpec([8, 4])


def graph_of(step, *specs):
    return capture(step, specs or [X], VariableNames()).graph


def analysis_of(graph):
    split = [node_of(i.tensor) for i in graph.inputs if i.split]
    return StepAnalysis(graph.graph_def, [v.handle for v in graph.variables], split)


def roles(graph):
    return {v.name: v.role for v in graph.variables}


def gradient_step(loss_of, *variables, update=None):
    """A step that descends a loss by hand."""

    def step(*batch):
        with tf.GradientTape() as tape:
            loss = loss_of(*batch)
        gradients = tape.gradient(loss, variables)
        gradients = update(gradients) if update else gradients
        for variable, gradient in zip(variables, gradients, strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step


def test_variables_of_one_name_get_numbers_in_capture_order():
    first, second = tf.Variable(tf.ones([4]), name="w"), tf.Variable(tf.ones([4]), name="w")
    graph = graph_of(gradient_step(lambda x: tf.reduce_mean(x * first * second), first, second))
    assert [v.name for v in graph.trainable] == ["w", "w#1"]
    names = VariableNames()
    assert [names.name(v.handle, "w") for v in (second, first, second)] == ["w", "w#1", "w"]


def test_a_branch_that_gives_nothing_may_take_the_loss():
    w, least = tf.Variable(tf.ones([4]), name="w"), tf.Variable(9.0, trainable=False, name="least")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * w)
        w.assign_sub(tape.gradient(loss, w))

        def keep():
            least.assign(loss)

        tf.cond(loss < least, keep, lambda: None)
        return loss

    assert [v.name for v in graph_of(step).variables] == ["w", "least"]


def test_roles_follow_from_what_is_written_from_what():
    w, frozen = tf.Variable(tf.ones([4]), name="w"), tf.Variable(tf.ones([4]), trainable=False, name="frozen")
    velocity, hits = tf.Variable(tf.zeros([4]), name="velocity"), tf.Variable(0.0, name="hits")
    steps = tf.Variable(0, name="steps")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * w * frozen)
        velocity.assign(0.9 * velocity + tape.gradient(loss, w))
        w.assign_sub(0.1 * velocity)
        hits.assign_add(tf.reduce_sum(x))
        steps.assign_add(1)
        return loss

    assert roles(graph_of(step)) == {
        "w": Role.TRAINABLE,
        "frozen": Role.CONSTANT,
        "velocity": Role.SLOT,
        "hits": Role.STATISTIC,
        "steps": Role.COUNTER,
    }


def test_updates_are_coupled_only_by_what_they_share():
    a, b, c = (tf.Variable(tf.ones([4]), name=name) for name in "abc")

    def clip_two(gradients):
        clipped, _ = tf.clip_by_global_norm(gradients[:2], 1.0)
        return [*clipped, gradients[2]]

    graph = graph_of(gradient_step(lambda x: tf.reduce_mean(x * a * b * c), a, b, c, update=clip_two))
    assert {v.name: v.coupled for v in graph.trainable} == {"a": ("a", "b"), "b": ("a", "b"), "c": ("c",)}


def test_an_optimizer_step_does_not_couple_its_variables():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    graph = graph_of(lambda x, y: model.train_step((x, y)), X, tf.TensorSpec([8, 1]))
    assert all(len(v.coupled) == 1 for v in graph.trainable)
    assert sum(v.role is Role.SLOT for v in graph.variables) == 2 * len(graph.trainable)
    assert sorted(v.backward_order for v in graph.trainable) == [0, 1, 2, 3]
    assert graph.trainable[-1].backward_order < graph.trainable[0].backward_order


def test_a_lookup_has_a_sparse_gradient_and_a_matrix_a_dense_one():
    table, w = tf.Variable(tf.ones([9, 4]), name="table"), tf.Variable(tf.ones([4, 2]), name="w")

    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.embedding_lookup(table, ids) @ w)
        of_table, of_w = tape.gradient(loss, [table, w])
        table.scatter_sub(of_table)
        w.assign_sub(of_w)
        return loss

    graph = graph_of(step, tf.TensorSpec([8], tf.int32))
    assert {v.name: v.is_sparse for v in graph.trainable} == {"table": True, "w": False}


def test_nested_functions_are_flattened_and_compute_the_same():
    w = tf.Variable(tf.ones([4]), name="w")

    @tf.function(jit_compile=True)
    def inner(x):
        return x * w

    @tf.function
    def outer(x):
        return tf.reduce_sum(inner(x) + inner(2.0 * x), axis=1)

    graph = graph_of(gradient_step(lambda x: tf.reduce_mean(outer(x)), w))
    ops = {node.op for node in graph.graph_def.node}
    assert not ops & {"PartitionedCall", "StatefulPartitionedCall", "IdentityN"}
    assert [v.name for v in graph.trainable] == ["w"]


# One function per scaling, applied to rows x of shape [n, 4] and to a mask that selects some of them.
EXTENTS = {
    "rows": (lambda x: tf.reduce_sum(x, axis=1), BatchScaling.ROWS),
    "selected rows": (lambda x: tf.boolean_mask(x, x[:, 0] > 0), BatchScaling.SUBSET),
    "mean": (lambda x: tf.reduce_mean(x), BatchScaling.MEAN),
    "mean over the batch only": (lambda x: tf.reduce_mean(x, axis=0), BatchScaling.MEAN),
    "mean and a constant": (lambda x: 3.0 * tf.reduce_mean(x) + 1.0, BatchScaling.MEAN),
    "sum": (lambda x: tf.reduce_sum(x, axis=0), BatchScaling.SUM),
    "size": (lambda x: tf.shape(x)[0], BatchScaling.COUNT),
    "number of elements": (lambda x: tf.size(x), BatchScaling.COUNT),
    "static dim": (lambda x: tf.shape(x)[1], BatchScaling.SAME),
    "sum over size": (lambda x: tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32), BatchScaling.MEAN),
    "mean times size": (lambda x: tf.reduce_mean(x) * tf.cast(tf.shape(x)[0], tf.float32), BatchScaling.SUM),
    "contraction over the batch": (lambda x: tf.matmul(x, x, transpose_a=True), BatchScaling.SUM),
    "root of a mean": (lambda x: tf.sqrt(tf.reduce_mean(x * x)), BatchScaling.MIXED),
    "sum and a constant": (lambda x: tf.reduce_sum(x) + 1.0, BatchScaling.MIXED),
    "ratio of sums": (lambda x: tf.reduce_sum(x) / tf.reduce_sum(x * x), BatchScaling.MIXED),
    "maximum": (lambda x: tf.reduce_max(x), BatchScaling.MIXED),
}


@pytest.mark.parametrize("name", EXTENTS)
def test_gradients_scale_with_the_batch_as_expected(name):
    function, expected = EXTENTS[name]
    w = tf.Variable(tf.ones([4]), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * w)
        w.assign_sub(tape.gradient(loss, w))
        return function(x)

    graph = graph_of(step)
    assert analysis_of(graph).scaling(graph.outputs[0].tensor) is expected


def names_op_and_line(error, op):
    return f"({op})" in str(error) and re.search(r"test_capture\.py:\d+", str(error)) is not None


def test_a_gradient_inside_a_loop_is_refused_with_op_and_line():
    w = tf.Variable(tf.ones([4]), name="w")

    def step(x):
        loss = tf.constant(9.0)
        while loss > 1.0:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(x * w)
            w.assign_sub(tape.gradient(loss, w))
        return loss

    with pytest.raises(CaptureError, match="inside control flow") as caught:
        graph_of(step)
    assert names_op_and_line(caught.value, "While")


def test_a_lookup_table_becomes_part_of_the_graph():
    w = tf.Variable(tf.ones([4]), name="w")

    def graph(values):
        keys = tf.lookup.KeyValueTensorInitializer(tf.constant([0, 1], tf.int64), tf.constant(values))
        table = tf.lookup.StaticHashTable(keys, 0.0)
        return graph_of(gradient_step(lambda x: tf.reduce_mean(x * w * table.lookup(tf.cast(x, tf.int64))), w))

    one = graph([0.5, 1.0])
    assert [v.name for v in one.variables] == ["w"]
    assert {"HashTableV2", "InitializeTableV2"} <= {node.op for node in one.graph_def.node}
    assert one.id == graph([0.5, 1.0]).id
    assert one.identity.difference(graph([0.5, 2.0]).identity) == "constants"


def test_an_iterator_is_refused_with_op_and_line():
    w, iterator = tf.Variable(tf.ones([4]), name="w"), iter(tf.data.Dataset.from_tensors(tf.ones([4])).repeat())

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x * w) + tf.reduce_mean(next(iterator))
        w.assign_sub(tape.gradient(loss, w))
        return loss

    with pytest.raises(CaptureError, match="goes over a dataset") as caught:
        graph_of(step)
    assert names_op_and_line(caught.value, "IteratorGetNext")


def test_captured_arrays_become_constants():
    w, scale = tf.Variable(tf.ones([4]), name="w"), tf.constant(np.arange(4, dtype=np.float32))
    graph = graph_of(gradient_step(lambda x: tf.reduce_mean(x * w * scale), w))
    assert len(graph.variables) == 1
    placeholders = [node.name for node in graph.graph_def.node if node.op == "Placeholder"]
    assert len(placeholders) == 2  # the batch and the handle of w


def test_whether_a_step_is_for_one_number_of_rows_is_tried_with_those_of_the_whole_batch():
    """Not with those of this worker's part, which do not fit the program's constants."""
    w = tf.Variable(tf.ones([4]), name="w")
    step = gradient_step(
        lambda x: tf.reduce_mean((x * w + tf.zeros([8, 1])) * tf.constant([1.0] * x.shape[0])[:, None]), w
    )
    with pytest.raises(FixedRowsError, match="asks in Python for the number of rows"):
        capture(step, [tf.TensorSpec([3, 4])], VariableNames(), rows=8)
