"""A row number that there is not ends a run over streams at once, and the worker that has it says so."""

import time
from pathlib import Path

import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("wrong_rows.py")


@pytest.mark.timeout(240)
@pytest.mark.slow  # quick is that of a worker that catches it
@pytest.mark.parametrize("wrong", [0, 1])
def test_a_row_number_that_there_is_not_ends_the_run(tmp_path, wrong):
    arguments = (str(wrong), "PSLoadBalancing(communicator='tcp')")
    begun = time.monotonic()
    result = LocalLauncher().launch(Job(SCRIPT, ResourceSpec.local(workers=2), arguments, run_dir=tmp_path / "run"))
    assert result.exit_code != 0
    assert time.monotonic() - begun < 120  # a step that waits for another worker waits for ten minutes
    assert result.failure.rank == wrong
    assert "indices[0] = 99 is not in [0, 10)" in result.failure.message
    for log in (tmp_path / "run" / "logs").iterdir():
        assert "loss 1" in log.read_text()
        assert "\nloss 2" not in log.read_text()


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "strategy", [pytest.param("PSLoadBalancing", marks=pytest.mark.slow), "PSLoadBalancing(communicator='tcp')"]
)
def test_who_waits_for_a_worker_that_has_caught_its_failure_names_it(tmp_path, strategy):
    job = Job(SCRIPT, ResourceSpec.local(workers=2), ("0", strategy, "caught"), run_dir=tmp_path / "run")
    begun = time.monotonic()
    result = LocalLauncher().launch(job)
    assert result.exit_code != 0
    assert time.monotonic() - begun < 120
    assert "caught" in (tmp_path / "run" / "logs" / "0.log").read_text()
    assert "worker 0 has failed in that step (" in result.failure.message
    assert "is not in [0, 10)" in result.failure.message
    assert "has left the scope" not in result.failure.message
    assert "let the error of that step end the script" in (tmp_path / "run" / "logs" / "1.log").read_text()
