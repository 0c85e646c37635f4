"""Reads of variables in control flow happen once, before it, and nothing else changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, called_functions, capture

X = tf.TensorSpec([8, 4])
BATCH = np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32)


def descends(loss_of, *variables):
    def step(x):
        with tf.GradientTape() as tape:
            loss = loss_of(x)
        for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step


def weights(name="w", shape=(4, 4)):
    values = np.random.default_rng(len(name)).standard_normal(shape, dtype=np.float32)
    return tf.Variable(0.3 * values, name=name)


def in_control_flow(graph, op):
    """How many nodes of a type its functions have that are still called from somewhere."""
    functions = {function.signature.name: function for function in graph.graph_def.library.function}

    def called(nodes):
        for function in (function for node in nodes for function in called_functions(node)):
            yield from functions[function.name].node_def
            yield from called(functions[function.name].node_def)

    return sum(node.op == op for node in called(graph.graph_def.node))


def reads(graph):
    return sum(node.op == "ReadVariableOp" for node in graph.graph_def.node)


def taken(captured, variables, batch):
    """Take the captured step in a session of its own; the loss and the variables after it."""
    graph, begins = captured.graph, [variable.numpy() for variable in variables]
    handles = {v.handle: v for v in graph.variables}
    graph_def = type(graph.graph_def)()
    graph_def.CopyFrom(graph.graph_def)
    for node in graph_def.node:
        if node.name in handles:
            variable = handles[node.name]
            node.op = "VarHandleOp"
            node.attr.clear()
            node.attr["dtype"].type = tf.as_dtype(variable.dtype).as_datatype_enum
            node.attr["shape"].shape.CopyFrom(tf.TensorShape(variable.shape).as_proto())
            node.attr["shared_name"].s = variable.name.encode()
    with tf.Graph().as_default() as own, tf.compat.v1.Session(graph=own) as session:
        tf.graph_util.import_graph_def(graph_def, name="")
        of = {v.name: own.get_tensor_by_name(f"{v.handle}:0") for v in graph.variables}
        names = [v.name for v in graph.trainable]
        order = [names.index(variable.name.partition(":")[0]) for variable in variables]
        assert sorted(order) == list(range(len(variables)))
        for variable, begin in zip(variables, begins, strict=True):
            handle = of[variable.name.partition(":")[0]]
            session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=begin))
        fetches = [_tensor(graph.outputs[0].tensor), *(own.get_operation_by_name(name) for name in graph.effects)]
        feeds = {_tensor(graph.inputs[0].tensor): batch}
        loss = session.run(fetches, feeds)[0]
        after = [
            session.run(tf.raw_ops.ReadVariableOp(resource=of[v.name.partition(":")[0]], dtype=v.dtype))
            for v in variables
        ]
    return loss, after


def _tensor(name):
    return name if ":" in name else f"{name}:0"


def same_as_eager(step, *variables):
    """Capture a step, and compare it with what TensorFlow makes of it."""
    captured = capture(step, [X], VariableNames())
    loss, after = taken(captured, variables, BATCH)
    expected = tf.function(step)(tf.constant(BATCH))
    assert loss == pytest.approx(float(expected), rel=1e-5)
    for variable, value in zip(variables, after, strict=True):
        np.testing.assert_allclose(value, variable.numpy(), rtol=1e-4, atol=1e-6)
    return captured.graph


def turns(x, body, count=5):
    return tf.while_loop(lambda k, _: k < count, lambda k, y: (k + 1, body(y)), (0, x))[1]


def test_a_loop_reads_its_weights_once():
    w = weights()
    graph = same_as_eager(descends(lambda x: tf.reduce_mean(turns(x, lambda y: tf.tanh(y @ w))), w), w)
    assert in_control_flow(graph, "ReadVariableOp") == 0
    assert reads(graph) <= 2  # forwards and backwards


def test_a_recurrent_layer_reads_its_weights_once():
    keras.utils.set_random_seed(0)
    layer = keras.layers.LSTM(3)
    layer.build((None, 4, 1))
    variables = [variable.value for variable in layer.trainable_variables]
    step = descends(lambda x: tf.reduce_mean(tf.square(layer(x[:, :, None]))), *variables)
    captured = capture(step, [X], VariableNames())
    assert in_control_flow(captured.graph, "ReadVariableOp") == 0
    begun = [variable.numpy() for variable in variables]
    tf.function(step)(tf.constant(BATCH))
    assert not any(np.array_equal(a, v.numpy()) for a, v in zip(begun, variables, strict=True))


def test_a_branch_and_the_loop_that_is_nested_in_it():
    w = weights()

    def loss_of(x):
        def deep():
            return tf.cond(tf.reduce_sum(x) > -1e6, lambda: turns(x, lambda y: tf.tanh(y @ w)), lambda: x @ w)

        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) < 1e6, deep, lambda: x @ w @ w))

    graph = same_as_eager(descends(loss_of, w), w)
    assert in_control_flow(graph, "ReadVariableOp") == 0


def test_a_branch_without_a_loop_reads_when_it_is_taken():
    w, v = weights("w"), weights("vv")

    def loss_of(x):
        return tf.reduce_mean(tf.cond(tf.reduce_sum(x) > -1e6, lambda: x @ w, lambda: x @ v))

    graph = same_as_eager(descends(loss_of, w, v), w, v)
    assert in_control_flow(graph, "ReadVariableOp") > 0


def test_cases_and_shapes():
    w = weights()

    def loss_of(x):
        branches = [
            lambda: x @ w,
            lambda: turns(x, lambda y: tf.tanh(y * tf.cast(tf.shape(w)[0], tf.float32) @ w), count=2),
        ]
        return tf.reduce_mean(tf.switch_case(tf.cast(tf.reduce_sum(x) * 0, tf.int32) + 1, branches))

    graph = same_as_eager(descends(loss_of, w), w)
    assert in_control_flow(graph, "ReadVariableOp") == 0


def test_what_is_written_in_a_loop_is_read_there():
    w = weights()
    total = tf.Variable(np.zeros((4,), np.float32), trainable=False, name="total")

    def step(x):
        def body(y):
            total.assign_add(tf.reduce_mean(y, 0))
            return y + total

        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w) + 0 * tf.reduce_mean(turns(x, body))
        w.assign_sub(tape.gradient(loss, w))
        return loss

    graph = capture(step, [X], VariableNames()).graph
    assert in_control_flow(graph, "ReadVariableOp") > 0
    assert {v.name for v in graph.variables} == {"w", "total"}


def test_rows_are_looked_up_where_they_are():
    table = weights("table", (50, 4))

    def loss_of(x):
        rows = tf.cast(tf.abs(x[:, 0]) * 10, tf.int32)
        return tf.reduce_mean(turns(x, lambda y: tf.tanh(y + tf.gather(table, rows)), count=2))

    graph = capture(descends(loss_of, table), [X], VariableNames()).graph
    assert in_control_flow(graph, "ResourceGather") > 0


def test_a_value_is_read_after_what_was_written_before():
    w = weights()
    scale = tf.Variable(1.0, trainable=False, name="scale")

    def step(x):
        scale.assign(3.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(turns(x, lambda y: tf.tanh(y @ w) * scale, count=2))
        w.assign_sub(0.1 * tape.gradient(loss, w))
        scale.assign(7.0)
        return loss

    captured = capture(step, [X], VariableNames())
    assert in_control_flow(captured.graph, "ReadVariableOp") == 0
    graph = captured.graph
    [before, _] = [node.name for node in graph.graph_def.node if node.op == "AssignVariableOp"]
    [scale_handle] = [variable.handle for variable in graph.variables if variable.name == "scale"]
    of_scale = [n for n in graph.graph_def.node if n.op == "ReadVariableOp" and n.input[0] == scale_handle]
    assert of_scale
    assert all(f"^{before}" in node.input for node in of_scale)
