"""Ctrl-C in a training of two workers: both stop at the same step, and what the script saves then is one device's."""

import signal
import threading
from pathlib import Path

import keras
import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher, SilentObserver
from autodist.resource_spec import ResourceSpec
from tests.modules import python_path

from .interrupted import FEATURES, make_model

HERE = Path(__file__).parent


class InterruptsOnce(SilentObserver):
    """Sends this process SIGINT when both workers have taken some steps."""

    def __init__(self):
        self.seen = [0, 0]
        self.main = threading.main_thread().ident

    def line(self, rank, line):
        if "running" in line.text and min(self.seen) < 5:
            self.seen[rank] += 1
            if min(self.seen) == 5:
                signal.pthread_kill(self.main, signal.SIGINT)


@pytest.mark.slow  # quick tests stop workers at one step (tests/launch) and go on from one process (tests/restarts)
def test_the_script_saves(tmp_path):
    environment = {"PYTHONPATH": python_path()}
    script, strategy = HERE / "interrupted.py", "PartitionedPS(min_shard_bytes=0)"
    job = Job(script, ResourceSpec.local(2), (str(tmp_path),), strategy, run_dir=tmp_path / "run", env=environment)
    result = LocalLauncher(InterruptsOnce()).launch(job)
    assert (result.exit_code, result.failure) == (130, None)
    assert result.duration_s < 200
    saved = keras.models.load_model(tmp_path / "interrupted.keras")
    steps = int(saved.optimizer.iterations.numpy())
    assert steps >= 5
    model = make_model()
    initial = model.get_weights()
    model.fit(FEATURES, FEATURES[:, :2], batch_size=4, epochs=steps // 2, verbose=0, shuffle=False)
    if steps % 2:
        model.train_on_batch(FEATURES[:4], FEATURES[:4, :2])
    expected = [v.numpy() for v in (*model.variables, *model.optimizer.variables)]
    for one, other in zip((*saved.variables, *saved.optimizer.variables), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-5, atol=1e-6)
    assert not np.allclose(initial[0], expected[0])
    of_the_chief = keras.models.load_model(tmp_path / "by_the_chief.keras")
    workers = [list(np.load(tmp_path / f"{rank}.npz").values()) for rank in (0, 1)]
    for found in (of_the_chief.get_weights(), *workers):
        for one, other in zip(found, saved.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
