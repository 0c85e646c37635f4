"""The certificate itself: it passes what is equal, and fails what is not."""

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from autodist.errors import CertificateFailed, WorkerFailed
from autodist.testing import certify, compare_recordings

SCRIPT = """
import sys
import autodist, numpy as np, tensorflow as tf

kind = sys.argv[1]
x = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
w = tf.Variable(tf.ones([3]), name="w")

with autodist.scope(gradient_reduction="mean" if kind == "by-replica" else "auto") as ad:
    @ad.function
    def step(x):
        with tf.GradientTape() as tape:
            y = x * w
            if kind == "noise":
                y += tf.random.stateless_normal(tf.shape(x), seed=(1, 2))
            if kind in ("not-a-mean", "by-replica"):
                loss = tf.reduce_max(y)
            else:
                loss = tf.reduce_mean(y ** 2)
        rate = 0.0 if kind == "stands-still" else 0.1
        w.assign_sub(rate * tape.gradient(loss, w))
        return loss

    for _ in range(2 if kind == "short" else 4):
        step(x)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("certify") / "train.py"
    path.write_text(textwrap.dedent(SCRIPT))
    return path


def run_cli(*args):
    command = [sys.executable, "-m", "autodist", "certify", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@pytest.mark.slow  # as below, in words
@pytest.mark.parametrize("kind", ["plain", "noise", "not-a-mean"])
def test_an_equal_run_passes_and_the_command_shows_the_worst_difference(script, kind):
    result = run_cli(script, "--steps", 3, "--workers", 1, "--replicas", 2, "--", kind)
    assert result.returncode == 0, result.stderr
    assert "passed: worst relative difference" in result.stdout
    assert "1 variable moved in 3 steps on 1 worker" in result.stdout


def test_json_has_every_difference(script):
    args = ("--steps", 2, "--workers", 1, "--replicas", 2, "--json")
    result = run_cli(script, *args, "--", "plain")
    certificate = json.loads(result.stdout)
    assert certificate["passed"] is True
    assert {d["name"] for d in certificate["differences"]} == {"final/w", "initial/w", "output/0/0", "output/1/0"}


def test_a_run_that_differs_fails_with_exit_code_3(script):
    result = run_cli(script, "--steps", 2, "--workers", 1, "--replicas", 2, "--", "by-replica")
    assert result.returncode == 3
    assert "FAILED" in result.stdout
    assert "differs from one device by more than 1e-05" in result.stderr
    assert "final/w" in result.stderr


NORMALIZED = """
import autodist, keras, numpy as np

x = np.random.default_rng(0).normal(size=(16, 3)).astype(np.float32)
with autodist.scope():
    model = keras.Sequential([keras.Input([3]), keras.layers.BatchNormalization(name="evened"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, x.sum(1, keepdims=True), batch_size=8, epochs=2, shuffle=False, verbose=0)
"""


@pytest.mark.slow  # tests/kernels/test_notes.py has the words, in every run
def test_layers_that_differ_from_one_device_are_named(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(NORMALIZED)
    result = run_cli(path, "--steps", 2, "--workers", 1, "--replicas", 2)
    assert result.returncode == 3
    assert "\nbatch normalization (`evened`) normalizes each replica's part of the batch by" in result.stderr
    assert "change what is named above as it says, or leave it out, and certify again" in result.stderr


@pytest.mark.slow  # as below, of real runs
def test_weights_that_do_not_move_certify_nothing(script):
    certificate = certify(script, ["stands-still"], workers=1, replicas=2, steps=2)
    assert not certificate.passed
    with pytest.raises(CertificateFailed, match="no variable changed within 2 steps"):
        certificate.check()


def test_a_script_with_fewer_steps_is_named_so(script):
    with pytest.raises(WorkerFailed, match="took fewer than 3 steps"):
        certify(script, ["short"], workers=1, replicas=2, steps=3)


def test_the_hint_of_a_failed_run_is_told(tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text("import no_such_package")
    with pytest.raises(WorkerFailed, match=r"single-device run failed: .*No module named 'no_such_package'") as caught:
        certify(broken, workers=1)
    assert caught.value.hint.startswith("install it for `")


def _recording(directory, **arrays):
    directory.mkdir()
    np.savez(directory / "0.npz", **{name.replace("__", "/"): np.asarray(value) for name, value in arrays.items()})
    return directory


def test_recordings_of_weights_that_do_not_move_certify_nothing(tmp_path):
    arrays = {"initial__w": [1.0, 2.0], "final__w": [1.0, 2.0], "output__0__0": 1.0, "output__1__0": 1.0}
    one, many = _recording(tmp_path / "one", **arrays), _recording(tmp_path / "many", **arrays)
    certificate = compare_recordings(one, many, tolerance=1e-5)
    assert not certificate.passed
    with pytest.raises(CertificateFailed, match="no variable changed within 2 steps"):
        certificate.check()


def test_not_a_number_is_the_worst_difference(tmp_path):
    one = _recording(tmp_path / "one", initial__w=[0.0], final__w=[1.0], output__0__0=1.0)
    many = _recording(tmp_path / "many", initial__w=[0.0], final__w=[np.nan], output__0__0=1.0)
    certificate = compare_recordings(one, many, tolerance=1e-5)
    assert certificate.worst.name == "final/w"
    assert not certificate.passed


def test_recordings_of_different_variables_are_refused(tmp_path):
    one = _recording(tmp_path / "one", initial__w=[0.0], final__w=[1.0], output__0__0=1.0)
    many = _recording(tmp_path / "many", initial__v=[0.0], final__v=[1.0], output__0__0=1.0)
    with pytest.raises(CertificateFailed, match="different arrays: final/v, final/w"):
        compare_recordings(one, many, tolerance=1e-5)
