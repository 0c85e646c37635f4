"""Files of checkpoints after a kill in the middle of saving, at any moment."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.modules import python_path

from .checkpoint_files import after

READS = """
import sys, tensorflow as tf
from autodist.coordination import Worker, WorkerEnvironment
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
checkpoints = Checkpoints(Worker(WorkerEnvironment()), sys.argv[1], 2, CheckpointKind.LOOP)
value = tf.Variable(tf.zeros([4_000_000]))
found = checkpoints.find()
if found is not None:
    checkpoints.restore({"value": value})
    assert (value.numpy() == found.position["steps"]).all(), "values of another checkpoint"
step = found.position["steps"] if found is not None else 0
"""

WRITES = f"""
{READS}
print(step, flush=True)
while True:
    step += 1
    value.assign(tf.fill([4_000_000], float(step)))
    checkpoints.save({{"value": value}}, (), {{"steps": step}})
"""


def killed_while_saving(directory, when):
    """Kill a process that saves all the time; returns the step that it began with."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, str(directory)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        began = process.stdout.readline()
        assert began, "the process has failed"
        deadline = time.monotonic() + 60
        while not when(directory) and time.monotonic() < deadline:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
    return int(began)


def has_two_and_writes(directory):
    unfinished = directory / ".autodist" / "unfinished"
    return (directory / "ckpt-3.index").exists() and unfinished.is_dir() and any(unfinished.iterdir())


def test_kill_in_the_middle_of_saving(tmp_path, monkeypatch):
    assert killed_while_saving(tmp_path, has_two_and_writes) == 0
    monkeypatch.setattr(sys, "argv", ["read", str(tmp_path)])
    read = {}
    exec(READS, read)
    assert read["step"] >= 3


@pytest.mark.slow
def test_kill_at_any_moment(tmp_path):
    random = np.random.default_rng(0)
    began = []
    for _ in range(15):
        began.append(killed_while_saving(tmp_path, after(random.uniform(0.1, 1.0))))
    assert began == sorted(began)
    assert began[-1] > 3
    state = json.dumps(sorted(names for names in os.listdir(tmp_path)))
    assert state.count("index") >= 2
