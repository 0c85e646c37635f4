"""Files of checkpoints: whole or not there, whatever happens to who writes them."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from autodist.errors import UsageError
from autodist.runtime import Checkpoints, Worker, WorkerEnvironment

from .runs import SCRIPTS


@pytest.fixture
def checkpoints(tmp_path):
    return lambda keep=2: Checkpoints(Worker(WorkerEnvironment()), tmp_path / "c", keep)


def save(checkpoints, *numbers):
    for number in numbers:
        checkpoints.save({"value": tf.Variable([float(number)])}, (), {"steps": number})


def newest(checkpoints):
    """The step of the newest checkpoint and the value in it."""
    position = checkpoints.find()
    if position is None:
        return None
    variable = tf.Variable([0.0])
    checkpoints.restore({"value": variable})
    return position["steps"], variable.numpy().item()


def names(tmp_path):
    return {path.name for path in (tmp_path / "c").iterdir()}


def files(*numbers):
    parts = {f"ckpt-{n}.{part}" for n in numbers for part in ("index", "data-00000-of-00001")}
    return {"checkpoint", *parts}


def test_the_newest_are_kept(checkpoints, tmp_path):
    assert newest(checkpoints()) is None
    assert not (tmp_path / "c").exists()
    save(checkpoints(), 3, 6, 9)
    assert names(tmp_path) == files(6, 9)
    assert newest(checkpoints()) == (9, 9.0)
    save(checkpoints(keep=1), 12)
    assert names(tmp_path) == files(12)


def test_plain_tensorflow_reads_them(checkpoints, tmp_path):
    save(checkpoints(), 3, 6)
    variable = tf.Variable([0.0])
    checkpoint = tf.train.Checkpoint(value=variable)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "c"), max_to_keep=2)
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-3", "ckpt-6"]
    checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    assert variable.numpy() == [6.0]
    assert checkpoint.save_counter.numpy() == 6


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty"])
def test_a_damaged_one_gives_way_to_the_one_before(part, damage, checkpoints, tmp_path, caplog):
    save(checkpoints(), 3, 6)
    path = tmp_path / "c" / f"ckpt-6.{part}"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = bytes([content[0] ^ 255]) + content[1:]
        path.write_bytes({"cut": content[:-3], "flipped": flipped, "empty": b""}[damage])
    assert newest(checkpoints()) == (3, 3.0)
    save(checkpoints(), 4)
    assert names(tmp_path) == files(3, 4)


def test_a_step_is_saved_again_after_going_back(checkpoints, tmp_path):
    save(checkpoints(), 3, 6)
    save(checkpoints(), 6)
    assert names(tmp_path) == files(3, 6)
    assert newest(checkpoints()) == (6, 6.0)


def test_leavings_are_swept(checkpoints, tmp_path):
    save(checkpoints(), 3)
    (tmp_path / "c" / ".unfinished").mkdir()
    (tmp_path / "c" / ".unfinished" / "ckpt-6.index").touch()
    (tmp_path / "c" / "ckpt-6.data-00000-of-00001").touch()
    (tmp_path / "c" / "mine.txt").touch()
    assert newest(checkpoints()) == (3, 3.0)
    save(checkpoints(), 6)
    assert names(tmp_path) == files(3, 6) | {"mine.txt"}
    checkpoints().remove()
    assert names(tmp_path) == {"mine.txt"}


def test_mistakes(checkpoints, tmp_path):
    with pytest.raises(UsageError, match="`keep` is 0"):
        checkpoints(keep=0)
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UsageError, match="a checkpoint can't be written into"):
        save(checkpoints(), 3)


def test_of_something_else(checkpoints):
    save(checkpoints(), 3)
    for other in ({"other": tf.Variable([0.0])}, {"value": tf.Variable([0.0, 0.0])}):
        found = checkpoints()
        found.find()
        with pytest.raises(UsageError, match="is of another model or optimizer"):
            found.restore(other)


WRITES = """
import sys, tensorflow as tf
from autodist.runtime import Checkpoints, Worker, WorkerEnvironment
checkpoints = Checkpoints(Worker(WorkerEnvironment()), sys.argv[1], 2)
value = tf.Variable(tf.zeros([4_000_000]))
found = checkpoints.find()
if found is not None:
    checkpoints.restore({"value": value})
    assert (value.numpy() == found["steps"]).all(), "values of another checkpoint"
step = found["steps"] if found is not None else 0
print(step, flush=True)
while True:
    step += 1
    value.assign(tf.fill([4_000_000], float(step)))
    checkpoints.save({"value": value}, (), {"steps": step})
"""


def killed_while_saving(directory, when):
    """Kill a process that saves all the time; returns the step that it began with."""
    environment = {**os.environ, "PYTHONPATH": ":".join([str(SCRIPTS.parent.parent), *sys.path[1:]])}
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
    unfinished = directory / ".unfinished"
    return (directory / "ckpt-3.index").exists() and unfinished.is_dir() and any(unfinished.iterdir())


def test_kill_in_the_middle_of_saving(tmp_path):
    assert killed_while_saving(tmp_path, has_two_and_writes) == 0
    assert killed_while_saving(tmp_path, lambda directory: True) >= 3


def after(delay_s):
    """Whether so long has passed since it was first asked."""
    first = []

    def has_passed(directory):
        first.append(time.monotonic())
        return first[-1] > first[0] + delay_s

    return has_passed


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
