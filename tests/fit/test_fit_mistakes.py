"""What users do wrong with `fit` on several workers ends soon, and with an error that says what to do."""

from pathlib import Path

import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from .places import COLLECTIVE, SERVERS

SCRIPT = Path(__file__).with_name("mistakes.py")
EXPECTED = {
    "another_length": "worker 0 is in step 3, but worker 1 ",
    "another_length_in_validation": "worker 1 ",
    "other_batches": "worker 1 was given another batch than the chief in step 2",
    "other_datasets": "worker 1 was given another batch than the chief",
    "evaluates_alone": "worker 0 begins, ends or goes on with `fit`; worker 1 evaluates or predicts",
    "evaluates_alone_at_the_end": "worker 0 has left the scope; worker 1 evaluates or predicts",
    "outside": "`fit` was called outside of a scope",
    "own_loop_outside": "the optimizer `sgd` was applied outside of a scope",
}


def launch(name, tmp_path, strategy):
    env = {"AUTODIST_STEP_TIMEOUT_S": "60"}
    job = Job(SCRIPT, ResourceSpec.local(workers=2, cpus=1), (name,), strategy, env=env, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    logs = "\n".join(log.read_text() for log in sorted((tmp_path / "run" / "logs").glob("*.log")))
    return result, logs


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", [SERVERS, COLLECTIVE])
@pytest.mark.parametrize("name", EXPECTED)
def test_ends_with_an_error(name, strategy, tmp_path):
    result, logs = launch(name, tmp_path, strategy)
    assert result.exit_code != 0
    assert EXPECTED[name] in logs + str(result.failure), logs[-3000:]
    assert "hint: " in logs


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("strategy", [SERVERS, COLLECTIVE])
def test_what_one_worker_assigns_between_two_fits_is_assigned_on_all(strategy, tmp_path):
    result, logs = launch("sets_weights_alone", tmp_path, strategy)
    assert result.exit_code == 0, logs[-3000:]
