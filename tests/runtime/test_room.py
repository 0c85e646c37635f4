"""Where memory is for a part of the model, building it does not take that of all of it; values are the same."""

import errno
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.runtime.data._values_in_files import _FiledValues

LITTLE_GB = 0.4
"""As much as values and slots of the script's model, of which each of two workers has half."""

RUN_MB = 45
"""What a run takes with a tiny model."""

MOST_OF_HALF = 1.4
"""What a worker of two may take, as a multiple of half of one device's; large updates wait for each other.

While other tests keep the machine busy, more of a step's values wait to be used: up to 1.41 was seen.
"""

SCRIPT = Path(__file__).with_name("room_script.py")


@pytest.fixture
def filed(tmp_path):
    values = _FiledValues()
    assert values.open(tmp_path)
    return values


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex64"])
def test_values_in_files_are_the_same(filed, dtype):
    value = np.random.default_rng(0).integers(0, 2, (3, 1 << 20)).astype(dtype)
    moved = filed.moved(value)
    assert not np.shares_memory(moved, value)
    filed.let_go(moved)
    assert moved.dtype == value.dtype
    np.testing.assert_array_equal(moved, value)
    assert filed.moved(moved) is moved


def test_zeros_keep_their_signs(filed):
    value = np.full((2, 1 << 20), -0.0, np.float32)
    assert np.signbit(filed.moved(value)).all()
    assert not np.signbit(filed.moved(-value)).any()


def test_what_is_changed_in_place_stays(filed):
    value = np.ones((2, 1 << 20), np.float32)
    arrays = [filed.moved(value), filed.moved(0 * value), filed.empty(value.shape, value.dtype)]
    for k, array in enumerate(arrays):
        array[:] = k + 2
        filed.let_go(array)
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array, k + 2)


def test_small_values_and_all_that_there_is_room_for_stay(filed, tmp_path):
    value = np.ones((2, 1 << 20), np.float32)
    assert filed.moved(value[0, :10]).base is not None
    small = value[0, :10].copy()
    assert filed.moved(small) is small
    assert _FiledValues().moved(value) is value
    roomy = _FiledValues()
    roomy.open(tmp_path, value.nbytes)
    assert roomy.moved(value) is value
    assert roomy.moved(value) is not value


def test_on_a_full_disk_values_stay_in_memory(filed, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = filed.moved(np.ones((2, 1 << 20), np.float32))
    monkeypatch.setattr(os, "posix_fallocate", full)
    value = np.full((2, 1 << 20), 3.0, np.float32)
    assert filed.moved(value) is value
    assert filed.empty(value.shape, value.dtype).shape == value.shape
    np.testing.assert_array_equal(kept, 1.0)
    assert [record.getMessage().count("No space left") for record in caplog.records] == [1]


def test_directories_in_main_memory_are_passed_over(tmp_path, monkeypatch):
    monkeypatch.setattr("autodist.runtime.data._values_in_files._is_on_disk", lambda place: False)
    assert not _FiledValues().open(tmp_path)


def test_variables_and_tensors_of_them_are_as_ever(tmp_path):
    program = """
import gc, sys
import numpy as np, tensorflow as tf
from pathlib import Path
from autodist.runtime.data import FILED_VALUES
from autodist.runtime.state import keep_values_in_files
assert FILED_VALUES.open(Path(sys.argv[1]))
keep_values_in_files()
value = np.random.default_rng(0).normal(size=(600, 600)).astype(np.float32)
v = tf.Variable(value)
before = v.read_value()
v.assign_add(tf.ones_like(v))
np.testing.assert_array_equal(before, value)
np.testing.assert_array_equal(v, value + 1)
v.assign(2 * value)
np.testing.assert_array_equal(v, 2 * value)
zeros = tf.Variable(tf.zeros((600, 600)))
read = zeros.read_value()
zeros[2].assign(tf.ones(600))
assert read.numpy().sum() == 0 and zeros.numpy().sum() == 600
@tf.function
def make():
    return v * 2
np.testing.assert_array_equal(make(), 4 * value)
made = {}
def anonymous_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1e3
@tf.function
def make_others():
    if not made:
        drawn = tf.random.normal((600, 600))
        starts = [drawn, 2 * drawn, tf.ones(3), *(tf.zeros((1000 + k, 8000)) for k in range(4))]
        for start in starts:
            made[len(made)] = tf.Variable(start)
        made["read"] = tf.Variable(made[2].read_value() + 1)
    return made[3][0, 0]
before_mb = anonymous_mb()
assert float(make_others()) == 0
gc.collect()
assert anonymous_mb() - before_mb < 64, "four values of 32 MB are zeros"
np.testing.assert_array_equal(2 * made[0], made[1])
assert np.ptp(made[0]) > 0 and made["read"].numpy().tolist() == [2, 2, 2]
checkpoint = tf.train.Checkpoint(v=v)
path = checkpoint.save(sys.argv[1] + "/c")
v.assign(value)
checkpoint.restore(path)
np.testing.assert_array_equal(v, 2 * value)
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    w = tf.compat.v1.get_variable("w", initializer=value, use_resource=True)
    session.run(w.initializer)
    np.testing.assert_array_equal(session.run(w), value)
"""
    environment = os.environ | {"TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1"}
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120, env=environment)


def trained_on_two(directory):
    """The peaks of memory of one device, and of the two workers, in MB; values and losses are the same."""
    arguments, local = (str(directory),), ResourceSpec.local(2)
    spec = replace(local, hosts=tuple(replace(host, memory_gb=LITTLE_GB) for host in local.hosts))
    job = Job(SCRIPT, spec, arguments, strategy="Tiled()", run_dir=directory / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    subprocess.run([sys.executable, str(SCRIPT), *arguments, "plainly"], check=True, timeout=300)

    expected = np.load(directory / "alone.npz")
    for rank in range(2):
        found = np.load(directory / f"{rank}.npz")
        for name in expected.files:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6, err_msg=f"{name} on {rank}")
        np.testing.assert_array_equal(found["initial"], expected["initial"])
    alone, *workers = (json.loads((directory / f"{name}.json").read_text()) for name in ("alone", 0, 1))
    return alone, workers


@pytest.mark.slow  # measured while no other tests run
def test_neither_building_a_model_nor_steps_take_the_memory_of_all_of_it(tmp_path):
    alone, workers = trained_on_two(tmp_path)
    for peaks in workers:
        assert peaks["built"] < alone["built"] / 2
        assert peaks["trained"] - RUN_MB < MOST_OF_HALF * alone["trained"] / 2
