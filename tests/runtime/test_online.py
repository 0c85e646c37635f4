"""Strategies tried in the first training steps: the steps train as on one device, and all workers stay with one."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce
from autodist.testing import certify
from tests.strategies.examples import graph, variable

from . import trying
from .test_workers import run

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("model", ["ncf_sparse", "bert_3", "two_optimizers"])
def test_steps_that_try_strategies_train_as_one_device_does(model):
    arguments = [model, "--size", "tiny", "--steps", "30"]
    strategy = "auto(online=3, proposals=300)"
    certify(EXAMPLES / "train_model.py", arguments, strategy=strategy, workers=2, steps=28).check()


FIT = """
import autodist, keras, numpy as np

x = np.random.default_rng(0).normal(size=(384, 8)).astype("float32")
with autodist.scope():
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, x[:, :1], batch_size=32, epochs=3, validation_data=(x[:64], x[:64, :1]), verbose=0)
"""


def test_fit_tries_strategies_and_evaluates_meanwhile(tmp_path):
    (tmp_path / "train.py").write_text(FIT)
    result = run(tmp_path / "train.py", "--strategy", "auto(online=3, proposals=300)", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert len(re.findall(r"\[0\].*step 0: strategy auto: ", result.stderr)) >= 3
    assert "tried 3 strategies in the first 21 steps" in result.stderr


TWO_STEPS = """
import autodist, numpy as np, tensorflow as tf

x = np.random.default_rng(0).normal(size=(32, 8)).astype("float32")
weights = [tf.Variable(np.full((8, n), 0.1, "float32"), name=f"w{n}") for n in (2, 3)]
ad = autodist.AutoDist()

def training(w):
    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(x @ w) ** 2)
        w.assign_sub(0.5 * tape.gradient(loss, w))
        return loss
    return step

with ad.scope():
    steps = [training(w) for w in weights]
    for _ in range(10):
        losses = [float(step(x)) for step in steps]
print("losses", *losses)
"""


def test_a_second_step_with_other_variables_has_a_strategy_of_its_own(tmp_path):
    """It was compiled by what was tried, or given, for the first step's variables, and the run ended."""
    (tmp_path / "train.py").write_text(TWO_STEPS)
    two = ResourceSpec.local(workers=2, cpus=1)
    AllReduce(communicator="tcp").build(graph(variable("w2", (8, 2))), two).save(tmp_path / "first.json")
    tried, given = ("--strategy", "auto(online=3, proposals=300)"), ("--strategy", "first.json")
    alone, *results = (run(tmp_path / "train.py", *more, cwd=tmp_path) for more in (("--workers", "1"), tried, given))
    for result in (alone, *results):
        assert result.returncode == 0, result.stderr
    assert all("step 1: strategy auto: " in result.stderr for result in results)
    assert "the strategy that is given has no variable of step 1: `auto` chooses for that step" in results[1].stderr
    told = [re.findall(r"losses (\S+) (\S+)", one.stdout)[0] for one in (alone, *results)]
    first, *others = np.array(told, float)
    np.testing.assert_allclose(others, [first, first], rtol=1e-5)
    assert np.all(first < 1e-3), "it trains"


@pytest.mark.slow
def test_strategies_that_fail_are_left_out(tmp_path):
    result = run(Path(trying.__file__), "--", f"{tmp_path}/out", cwd=tmp_path, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("can't be compiled, and is left out") == 2, "in each of the two attempts"
    assert "2 PS over tcp, a strategy that was being tried out, is left out; all workers start again" in result.stderr
    assert "tried 2 strategies in the first 14 steps" in result.stderr
    expected = trying.main(contextlib.nullcontext, is_run=False)
    for rank in range(2):
        found = dict(np.load(f"{tmp_path}/out{rank}.npz"))
        for name, value in expected.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6, err_msg=f"{name} on rank {rank}")
