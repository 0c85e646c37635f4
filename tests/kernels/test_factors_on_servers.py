"""Sufficient factors beside every other thing that a server may do, on several workers of one process."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import factors_of
from autodist.strategies import VariableConfig
from autodist.testing import InProcessCluster

from . import plans

HOSTS = plans.hosts(2, 2)
REPLICAS = ("h0:CPU:0", "h1:CPU:0", "h1:CPU:1")
RANDOM = np.random.default_rng(0)
BATCHES = [(RANDOM.normal(size=(size, 4)).astype(np.float32),) for size in (7, 5, 1)]


def codes(x):
    """One-hot rows of four, some of them without a one."""
    return tf.one_hot(tf.cast(tf.floor(2 * x[:, 0]), tf.int64), 4)


def make_step(inputs=tf.identity):
    """Two dense layers with a bias, a regularizer and momentum; what the first is given is made of numbers."""
    shapes = {"w": (4, 6), "u": (6, 3), "bias": (3,)}
    random = np.random.default_rng(1)
    variables = [tf.Variable(random.normal(size=s).astype(np.float32), name=n) for n, s in shapes.items()]
    velocities = [tf.Variable(tf.zeros(s), name=f"velocity_{n}") for n, s in shapes.items()]
    w, u, bias = variables

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(inputs(x) @ w) @ u + bias - 1.0)) + 0.1 * tf.nn.l2_loss(w)
        for variable, velocity, gradient in zip(variables, velocities, tape.gradient(loss, variables), strict=True):
            velocity.assign(0.9 * velocity + gradient)
            variable.assign_sub(0.1 * velocity)
        return loss

    step.variables = [*variables, *velocities]
    return step


def factored(graph, **options):
    """All variables on both hosts' servers, their factors pushed where they have some."""
    strategy = plans.served(graph, REPLICAS, ["h0:CPU:0", "h1:CPU:1"], **options)
    return dataclasses.replace(strategy, variables=tuple(_config(graph, c) for c in strategy.variables))


def _config(graph, config):
    encoder = "SufficientFactors" if factors_of(graph, config.variable).obstacle is None else None
    return VariableConfig.whole(config.variable, config.synchronizer, encoder)


def on_one_device(inputs):
    step = make_step(inputs)
    compiled = tf.function(step)
    losses = [float(compiled(*map(tf.constant, arrays))) for arrays in BATCHES]
    return losses, {v.name[:-2]: v.numpy() for v in step.variables}


@pytest.mark.parametrize(
    "options",
    [{}, {"local_proxy": True}, {"transfer": ("h0:CPU:0", "h1:CPU:1")}],
    ids=["plain", "proxy", "station"],
)
@pytest.mark.parametrize("inputs", [tf.identity, codes], ids=["numbers", "one-hot"])
def test_equals_one_device(inputs, options):
    losses, expected = on_one_device(inputs)
    made = InProcessCluster(make_step(inputs), BATCHES[0], lambda graph: factored(graph, **options), HOSTS)
    found = []
    for arrays in BATCHES:
        found.append([float(outputs[0]) for outputs in made.step(*arrays)])
        made.refresh()
    values = made.values()
    made.close()
    np.testing.assert_allclose(found, np.transpose([losses, losses]), rtol=1e-5)
    for name, value in expected.items():
        for copy in values[name]:
            np.testing.assert_allclose(copy, value, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("options", [{"sync": False}, {"staleness": 2}], ids=str)
@pytest.mark.parametrize("inputs", [tf.identity, codes], ids=["numbers", "one-hot"])
def test_asynchronous_servers_converge_with_factors(inputs, options):
    (x,) = BATCHES[0]
    made = InProcessCluster(make_step(inputs), (x,), lambda graph: factored(graph, **options), HOSTS)
    losses = [float(made.step(x)[0][0]) for _ in range(25)]
    for worker in made.workers:
        worker.settle([25] * len(made.workers))
    made.close()
    assert losses[-1] < 0.5 * losses[0], losses
