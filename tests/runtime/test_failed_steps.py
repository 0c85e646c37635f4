"""Steps that fail on several workers end at once, with their own error, although each waits for another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

HERE = Path(__file__).parent


@pytest.mark.timeout(150)
@pytest.mark.parametrize("what", ["at once", "later", "in a function", "comes after all", "succeeds"])
def test_a_watched_step(what):
    ran = subprocess.run(
        [sys.executable, "-m", "tests.runtime.watched_step", what],
        cwd=HERE.parents[1],
        env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout == "as it should be\n"


@pytest.mark.timeout(150)
@pytest.mark.parametrize(
    "strategy",
    ["PSLoadBalancing", pytest.param("PSLoadBalancing(staleness=1)", marks=pytest.mark.slow)],
)
def test_updates_fail_at_the_servers_of_two_workers(strategy, tmp_path):
    spec = ResourceSpec.local(workers=2)
    # Its stall timeout is longer than the test may take.
    job = Job(HERE / "failing_server.py", spec, ("2",), strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    logs = "".join(log.read_text() for log in (tmp_path / "run" / "logs").iterdir())
    assert result.exit_code == 1
    assert "no gradient to go by" in logs
    assert "steps: 20" in logs
