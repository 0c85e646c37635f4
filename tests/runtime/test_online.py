"""Strategies tried in the first training steps: the steps train as on one device, and all workers stay with one."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

from autodist.testing import certify

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
