"""What goes wrong on one worker of several, under `autodist run`: it is named, soon, and nothing hangs."""

import os
import re
import subprocess
import sys
import time

import pytest

HEAD = """import os, signal, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import keras, numpy as np, tensorflow as tf
import autodist
RANK = int(os.environ["RANK"])
x = np.random.default_rng(0).normal(size=(8, 4)).astype("float32")
def make():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
def make_step(model, optimizer):
    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x) - x[:, :1]))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss
    return step
"""
SCOPE = HEAD + "with autodist.scope() as ad:\n    model = make(); step = make_step(model, keras.optimizers.SGD(0.1))\n"


class Result:
    def __init__(self, completed, took_s):
        self.exit_code = completed.returncode
        self.text = completed.stdout + completed.stderr
        self.took_s = took_s

    @property
    def first_failure(self):
        found = re.search(r"first failure +worker (\d+)", self.text)
        return int(found.group(1)) if found else None


@pytest.fixture
def run(tmp_path):
    def start(script, *args, timeout_s=240, **env):
        (tmp_path / "train.py").write_text(script)
        command = [sys.executable, "-m", "autodist", "run", "train.py", "--workers", "2", *args]
        began = time.monotonic()
        completed = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **env}, capture_output=True, text=True, timeout=timeout_s
        )
        return Result(completed, time.monotonic() - began)

    return start


STRATEGIES = [
    "PSLoadBalancing",
    pytest.param("AllReduce(communicator='collective')", marks=pytest.mark.slow),
    pytest.param("AllReduce(communicator='horovod')", marks=[pytest.mark.horovod, pytest.mark.slow]),
]


@pytest.mark.slow  # quick tests raise where nothing is trained
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_rank_raises(run, strategy):
    body = (
        "    for k in range(1000):\n        step(x)\n        if k == 3 and RANK == 1: raise ValueError('only here')\n"
    )
    result = run(SCOPE + body, "--strategy", strategy)
    assert (result.exit_code, result.first_failure) == (1, 1), result.text
    assert "ValueError: only here" in result.text


@pytest.mark.slow  # tests/restarts/test_kills.py has one that comes back, and tests/launch names who was killed
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_rank_is_killed(run, strategy):
    body = (
        "    for k in range(100000):\n        step(x)\n"
        "        if k == 3 and RANK == 1:\n"
        "            print('killed at', time.time(), flush=True)\n            os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = run(SCOPE + body, "--strategy", strategy, "--grace", "2")
    ended = time.time()
    assert (result.exit_code != 0, result.first_failure) == (True, 1), result.text
    killed = float(re.search(r"killed at ([\d.]+)", result.text).group(1))
    assert ended - killed < 2 + 10, result.text


@pytest.mark.slow  # as tests/cli/test_run.py has it for a script without a scope
def test_script_that_never_trains(run):
    result = run(HEAD + "with autodist.scope(): make()\n")
    assert result.exit_code == 1
    assert "without a training step" in result.text


def test_a_training_with_no_epochs_left_ends_well(run):
    fit = "model = make(); model.compile('sgd', 'mse'); model.fit(x, x[:, :1], epochs=2, initial_epoch=2)"
    result = run(f"{HEAD}with autodist.scope():\n    {fit}\n")
    assert result.exit_code == 0, result.text
    assert "`fit` has no epochs left: it was to end with epoch 2" in result.text


@pytest.mark.slow
def test_fit_outside_of_any_scope(run):
    fit = "model.compile('sgd', 'mse'); model.fit(x, x[:, :1], verbose=0)\n"
    for script in (
        SCOPE + "    step(x)\n" + fit,
        "import keras\n" + HEAD.replace("import autodist\n", "") + "model = make(); " + fit,
    ):
        result = run(script)
        assert result.exit_code == 2, result.text
        assert "`fit` was called outside of a scope" in result.text
        assert "Traceback" not in result.text


def test_step_that_blocks_too_long(run):
    body = "    step(x)\n    time.sleep(100 * RANK)\n    step(x)\n"
    result = run(SCOPE + body, "--strategy", "PSLoadBalancing", AUTODIST_STEP_TIMEOUT_S="10")
    assert (result.exit_code, result.first_failure) == (124, 0), result.text
    assert "worker 0: step 2 did not end within 10 s" in result.text


@pytest.mark.slow  # tests/runtime/test_waiting_notes.py has a loop that ends by the clock
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ranks_that_take_different_numbers_of_steps(run, strategy):
    result = run(SCOPE + "    for k in range(6 - RANK): step(x)\n", "--strategy", strategy)
    assert result.exit_code == 1, result.text
    assert "worker 0 is in step 6, but worker 1 has left the scope after 5 steps" in result.text
    assert "condition on the rank" in result.text


@pytest.mark.slow
def test_ranks_that_trace_different_steps(run):
    result = run(
        SCOPE
        + "    other = make_step(model, keras.optimizers.SGD(0.1))\n    step(x)\n    (other if RANK else step)(x)\n",
        "--strategy",
        "PSLoadBalancing",
    )
    assert result.exit_code == 1, result.text
    assert "worker 0 is in step 2, but worker 1 is tracing a new step after 1 step" in result.text


@pytest.mark.slow
def test_ranks_with_different_variables(run):
    body = "    extra = keras.layers.Dense(1 + RANK); model.add(extra); model.build((None, 4))\n    step(x)\n"
    result = run(SCOPE + body)
    assert result.exit_code == 2, result.text
    assert "worker 1 traced another step than the chief" in result.text


@pytest.mark.slow
def test_ranks_with_different_global_batches(run):
    result = run(SCOPE + "    step(x + RANK)\n")
    assert (result.exit_code, result.first_failure) == (2, 1), result.text
    assert "worker 1 was given another batch than the chief" in result.text
    assert "batch='local'" in result.text


@pytest.mark.slow
def test_assignment_on_one_rank_only(run):
    body = "    step(x)\n    if RANK == 0: model.layers[0].kernel.assign(np.ones((4, 1)))\n    step(x)\n"
    result = run(SCOPE + body, "--strategy", "PSLoadBalancing")
    assert result.exit_code == 1, result.text
    assert "worker 1 is in step 2, but worker 0 has assigned" in result.text


@pytest.mark.slow
def test_sharded_batch_changed_on_the_way(run):
    body = "    for b in ad.shard(tf.data.Dataset.from_tensor_slices(x).batch(8)): step(tf.cast(b, 'float32') * 2)\n"
    result = run(SCOPE + body)
    assert result.exit_code == 2, result.text
    assert "looks like a whole batch" in result.text
    assert "dataset.map" in result.text


@pytest.mark.slow
def test_parts_of_the_data_for_servers_that_wait_for_nobody(run):
    body = "    for b in ad.shard(tf.data.Dataset.from_tensor_slices(x).batch(4), by='element'): step(b)\n"
    result = run(SCOPE + body, "--strategy", "PS(sync=False)")
    assert result.exit_code == 2, result.text
    assert "needs steps that all workers take together" in result.text
    assert "by='batch'" in result.text
