"""Runs of the scripts of these tests, with kills and without."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from autodist.launch import Job, LocalLauncher, RestartingLauncher
from autodist.resource_spec import ResourceSpec
from tests.modules import TESTS, python_path

SCRIPTS = Path(__file__).parent


def run(script, directory, *args, workers=2, strategy=None, kills=(), max_restarts=None, seed=11, env=None):
    """The result of a run, and what each of its workers has written."""
    directory.mkdir(parents=True, exist_ok=True)
    orders = ("--kill", *kills) if kills else ()
    job = Job(
        SCRIPTS / script,
        ResourceSpec.local(workers),
        (str(directory), *orders, *args),
        strategy,
        seed=seed,
        run_dir=directory / f"run-{len(list(directory.glob('run-*')))}",
        max_restarts=len(kills) if max_restarts is None else max_restarts,
        env={"PYTHONPATH": python_path(TESTS), **(env or {})},
    )
    result = RestartingLauncher(LocalLauncher(), pause_s=0.05).launch(job)
    assert result.exit_code == 0, result.failure
    assert [attempt.failure.signal for attempt in result.earlier] == ["SIGKILL"] * len(kills)
    return result, [dict(np.load(directory / f"{rank}.npz")) for rank in range(workers)]


def assert_same(found, expected, exactly=True):
    """All workers have what the workers of another run have, and it is not what they began with."""
    for one in found:
        for name, value in expected[0].items():
            if name == "taken":
                continue
            if exactly:
                np.testing.assert_array_equal(one[name], value, err_msg=name)
            else:
                np.testing.assert_allclose(one[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    steps = [name for name in expected[0] if name.endswith("iteration")]
    assert all(expected[0][name] > 0 for name in steps)
    assert steps
