"""Summaries that steps write: the chief writes them, once, and they are those of one device."""

import os
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest
import tensorflow as tf

from . import writes_summaries
from .programs import TWO, run_distributed


def written(directory):
    """By tag and step, what was written to a directory, in order; its files that hold values."""
    found, files = [], []
    for file in sorted(directory.iterdir()):
        values = [(e.step, v) for e in tf.compat.v1.train.summary_iterator(str(file)) for v in e.summary.value]
        files += [file] if values else []
        for step, value in values:
            kind = value.metadata.plugin_data.plugin_name
            found.append((value.tag, step, kind, tf.make_ndarray(value.tensor)))
    return found, files


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    directory = tmp_path_factory.mktemp("plain")
    command = [sys.executable, writes_summaries.__file__]
    subprocess.run(command, cwd=directory, check=True, timeout=240, env={**os.environ, "RANK": "0"})
    return directory


@pytest.mark.parametrize(
    ("workers", "strategy"), [(2, "AllReduce"), pytest.param(3, "PSLoadBalancing", marks=pytest.mark.slow)]
)
def test_summaries_of_steps_are_those_of_one_device(workers, strategy, expected, tmp_path):
    command = [sys.executable, "-m", "autodist", "run", writes_summaries.__file__, "--workers", str(workers)]
    run = subprocess.run([*command, "--strategy", strategy], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr
    with np.load(expected / "0.npz") as plain:
        arrays = list(plain.values())
    for rank in range(workers):
        with np.load(tmp_path / f"{rank}.npz") as found:
            for one, other in zip(arrays, found.values(), strict=True):
                np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)
    (plain, _), (found, files) = written(expected / "summaries"), written(tmp_path / "summaries")
    assert len(files) == 1, "only the chief writes"
    assert [entry[:3] for entry in found] == [entry[:3] for entry in plain]
    tags = {tag for tag, *_ in found}
    assert tags == {
        "fit/loss", "fit/norm", "tested/loss", "loss", "found", "rows", "text", "image", "even", "after the step"
    }  # fmt: skip
    assert sum(tag == "even" for tag, *_ in found) == 2
    for (tag, step, _, one), (*_, other) in zip(plain, found, strict=True):
        if one.dtype == object:
            assert one.tolist() == other.tolist(), (tag, step)
        else:
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5, err_msg=f"{tag} {step}")


def test_two_replicas_of_one_worker(tmp_path):
    def program(scope):
        with scope():
            weight = tf.Variable(2.0)
            writer = tf.summary.create_file_writer(str(tmp_path))

            @tf.function
            def step(x):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(weight * x)
                weight.assign_sub(tape.gradient(loss, weight))
                with writer.as_default(step=3):
                    tf.summary.scalar("loss", loss)
                return loss

            step(np.arange(6, dtype="float32"))
            writer.close()
        return weight.numpy()

    assert run_distributed(program) == pytest.approx(2.0 - 2.5)
    [(tag, step, kind, value)], _ = written(tmp_path)
    assert (tag, step, kind, float(value)) == ("loss", 3, "scalars", 5.0)
    assert len(TWO["spec"].replicas) == 2
