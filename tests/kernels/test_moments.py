"""Synchronized batch normalization: how often workers meet for a layer, and what comes of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from . import single

START = np.random.default_rng(7).normal(size=(3, 4)).astype(np.float32)
ROWS = np.random.default_rng(8).normal(2.0, 3.0, size=(8, 3)).astype(np.float32)


def normalized(axes=(0,), offset=0.0, with_layer=True):
    """A step whose values are normalized over the batch: by the layer, or by hand."""
    w = tf.Variable(START, name="w")
    norm = keras.layers.BatchNormalization(synchronized=True, epsilon=1e-3)
    norm.build([None, 4])
    gamma = tf.Variable(tf.linspace(0.5, 2.0, 4), name="gamma_of_mine")

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            values = tf.matmul(x, w) + offset
            if with_layer:
                values = norm(values, training=True)
            else:
                mean, variance = tf.nn.moments(values, axes, keepdims=True)
                values = (values - mean) * tf.math.rsqrt(variance + 1e-3)
            loss = tf.reduce_mean(tf.square(gamma * values - tf.sin(x[:, :1])))
        for variable, gradient in zip((w, gamma), tape.gradient(loss, (w, gamma)), strict=True):
            variable.assign_sub(0.1 * gradient)
        return loss, norm.moving_variance + 0.0, norm.moving_mean + 0.0

    return step


def one_device(step, batches):
    outputs = [[value.numpy() for value in step(tf.constant(x))] for (x,) in batches]
    return outputs, {v.name: v.numpy() for v in step.get_concrete_function(*batches[0]).variables}


@pytest.mark.parametrize("sizes", [(3, 5), (8, 0), (2, 1, 5)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"offset": 300.0},
        {"with_layer": False},
        {"with_layer": False, "axes": (0, 1)},
    ],
)
def test_weights_and_statistics_are_those_of_one_device(sizes, options):
    step, batches = normalized(**options), [(ROWS,), (ROWS[::-1] * 0.5,)]
    ran = single.run(step, batches, sizes, strategy="AllReduce(communicator='tcp')")
    before = {"w": START, "gamma_of_mine": np.linspace(0.5, 2.0, 4)}
    outputs, variables = one_device(step, batches)
    for ours, theirs in zip(ran.outputs, outputs, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5 if not options.get("offset") else 1e-3, atol=1e-6)
    for name in before:
        found = ran.variables[name]
        assert np.abs(found - before[name]).max() > 1e-3
        np.testing.assert_allclose(found, variables[f"{name}:0"], rtol=1e-4, atol=2e-6)


def _behind(graph_def, name):
    """All that a node needs."""
    nodes = {node.name: node for node in graph_def.node}
    found, left = set(), [name]
    while left:
        for tensor in nodes[left.pop()].input:
            source = tensor.lstrip("^").split(":")[0]
            if source not in found:
                found.add(source)
                left.append(source)
    return found


def _meetings(graph_def):
    return {n.name for n in graph_def.node if n.name.startswith("autodist/synced/") and n.op == "Identity"}


def test_replicas_meet_once_on_the_way_there_and_once_on_the_way_back():
    _, graph = single.rewritten(normalized(), (ROWS,), 2, strategy="AllReduce(communicator='tcp')")
    meetings = _meetings(graph.graph_def)
    [there] = [name for name in meetings if name.endswith("/moments")]
    statistics = {name for name in meetings if there in _behind(graph.graph_def, name)}
    back = {name for name in statistics if "gradient_tape" in name}
    assert len(back) == 2, sorted(statistics)  # the sums of the gradient, and of its product with the values
    assert not any(other in _behind(graph.graph_def, one) for one in back for other in back)
    assert not any(name.endswith(("moments/mean", "moments/variance")) for name in meetings)


def test_among_many_replicas_sums_are_less_to_send():
    rows = np.repeat(ROWS, 2, 0)
    _, graph = single.rewritten(normalized(), (rows,), 9, strategy="AllReduce(communicator='tcp')")
    names = _meetings(graph.graph_def)
    assert {name.rpartition("/")[2] for name in names if "/moments/" in name} == {"mean", "variance"}
