"""A strategy is made for one training step; a script that trains a model in phases has several."""

import logging
import re

import keras
import numpy as np
import pytest

from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce, PSLoadBalancing, Strategy, tile_config
from tests.strategies.examples import graph, variable

from .programs import TWO, WIDTH, adam, assert_same, data, everything
from .test_workers import run

PHASES = """
import autodist, numpy as np, tensorflow as tf

ad = autodist.AutoDist()
x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
with ad.scope():
    head, base = (tf.Variable(tf.ones(shape), name=name) for name, shape in (("head", (4, 2)), ("base", (4, 4))))

    def training(*trained):
        @ad.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tanh(x @ base) @ head - x[:, :2]))
            for variable, gradient in zip(trained, tape.gradient(loss, trained)):
                variable.assign_sub(0.1 * gradient)
            return loss
        return step

    first, second = training(head), training(head, base)
    losses = [float(first(x)) for _ in range(3)] + [float(second(x)) for _ in range(3)]
print("losses", *losses)
"""

BASE = {"base/first/kernel": (WIDTH, 32), "base/first/bias": (32,)}
HEAD = {"head/kernel": (32, 1), "head/bias": (1,)}


def fine_tuned(scope):
    """Train the head of a model whose base is frozen, then all of it, then the base alone."""
    x, y = data()
    with scope():
        base = keras.Sequential([keras.layers.Dense(32, activation="tanh", name="first")], name="base")
        inputs = keras.Input((WIDTH,))
        head = keras.layers.Dense(1, name="head")
        model = keras.Model(inputs, head(base(inputs)))
        found = []
        for is_base_trained, is_head_trained in ((False, True), (True, True), (True, False)):
            base.trainable, head.trainable = is_base_trained, is_head_trained
            model.compile(adam(), "mse")
            found.append(model.fit(x, y, batch_size=10, shuffle=False, verbose=0).history["loss"])
        found.append(model.evaluate(x, y, verbose=0))
    return found, everything(model)


def made_for(builder, shapes):
    step = graph(*(variable(name, shape, order=n) for n, (name, shape) in enumerate(shapes.items())))
    if builder != "tiled":
        return builder.build(step, TWO["spec"])
    rest = AllReduce(communicator="tcp").build(step, TWO["spec"])
    first = next(name for name, shape in shapes.items() if len(shape) == 2)
    tiled = tile_config(step, TWO["spec"], first, 0)
    return Strategy(rest.graph, tuple(tiled if c.variable == first else c for c in rest.variables))


@pytest.mark.parametrize(
    ("builder", "shapes"),
    [
        pytest.param(builder, shapes, marks=pytest.mark.slow if is_slow else (), id=f"{builder}-{name}")
        for builder, slow in ((AllReduce(communicator="tcp"), "all"), (PSLoadBalancing(), "head"), ("tiled", "all"))
        for name, shapes in (("head", HEAD), ("all", {**BASE, **HEAD}))
        for is_slow in (name == slow,)
    ],
)
def test_one_for_one_phase_serves_all_phases(builder, shapes, caplog):
    """It was refused by the first phase that trains other variables, and the run ended there."""
    with caplog.at_level(logging.INFO, "autodist"):
        assert_same(fine_tuned, strategy=made_for(builder, shapes))
    given = [m for m in caplog.messages if m.startswith("the strategy that is given")]
    if shapes == HEAD:
        assert [m.partition("given ")[2] for m in given] == [
            "lacks 2 variables of step 1, as `base/first/bias`: `auto` chooses for these",
            "has no variable of step 2: `auto` chooses for that step",
        ]
    else:
        assert [m.partition("given ")[2] for m in given] == [
            "has 2 variables that step 0 does not train",
            "has 2 variables that step 2 does not train",
        ]


def test_a_file_of_another_cluster_serves_all_phases(tmp_path):
    """Both fittings meet here; the warning named a line of AutoDist's code."""
    (tmp_path / "train.py").write_text(PHASES)
    step = graph(variable("head", (4, 2)), variable("base", (4, 4), order=1))
    three = ResourceSpec.local(workers=3, cpus=1)
    PSLoadBalancing(communicator="tcp").build(step, three).save(tmp_path / "three.json")
    alone, found = (
        run(tmp_path / "train.py", *more, cwd=tmp_path)
        for more in (("--workers", "1"), ("--workers", "2", "--strategy", "three.json"))
    )
    assert found.returncode == 0, found.stderr
    warned = re.findall(
        r"^\[0\] warning: the strategy `.*three.json` is of another cluster", found.stderr, re.MULTILINE
    )
    assert len(warned) == 1, "once for all steps"
    assert "RetargetedWarning" not in found.stderr
    assert "has 1 variable that step 0 does not train" in found.stderr
    expected, *others = (
        np.array(told.split(), float) for one in (alone, found) for told in re.findall(r"losses (.*)", one.stdout)
    )
    assert len(others) == 2
    np.testing.assert_allclose(others, [expected] * 2, rtol=1e-5)
    assert np.all(np.diff(expected) < 0), "it trains"
