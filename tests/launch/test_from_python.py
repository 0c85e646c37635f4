"""Jobs that are launched from Python: shown as `autodist run` shows them, or not at all."""

import re

import pytest

from autodist.cli import main
from autodist.launch import Job, LocalLauncher, SilentObserver
from autodist.resource_spec import ResourceSpec

SCRIPT = "print('here', w.rank)\nprint('there', file=sys.stderr)\nw.steps_taken += 1\n"
FAILURE = "w.coordinator.barrier('all', 60.0)\nif w.rank == 1: raise ValueError('on purpose')\ntime.sleep(60)"


def said(text: str) -> list[str]:
    """Its lines without names of runs, times and processes, in an order that does not depend on who was faster."""
    return sorted(re.sub(r"\d{8}-\S+?\b(?=[:/` ]|$)|\d+\.\d|pid \d+", "#", line) for line in text.splitlines())


@pytest.mark.parametrize("ending", ["", FAILURE], ids=["success", "failure"])
def test_a_job_is_shown_as_the_command_shows_it(bench, capfd, ending):
    script = bench.script(SCRIPT + ending)
    result = LocalLauncher().launch(Job(script, ResourceSpec.local(2)))
    by_job = capfd.readouterr()
    assert main(["run", str(script), "--workers", "2"]) == result.exit_code
    by_command = capfd.readouterr()
    assert said(by_job.out) == said(by_command.out)
    assert said(by_job.err) == said(by_command.err)
    assert sorted(by_job.out.splitlines()) == ["[0] here 0", "[1] here 1"]
    assert ("ValueError: on purpose" in by_job.err) == bool(ending)


@pytest.mark.parametrize("ending", ["", FAILURE], ids=["success", "failure"])
def test_a_silent_observer_leaves_all_to_the_logs(bench, capfd, ending):
    job = Job(bench.script(SCRIPT + ending), ResourceSpec.local(2))
    result = LocalLauncher(SilentObserver()).launch(job)
    assert capfd.readouterr() == ("", "")
    assert result.exit_code == bool(ending)
    assert (result.failure is not None and "on purpose" in result.failure.message) == bool(ending)
    logs = "".join(path.read_text() for path in (result.run_dir / "logs").glob("*.log"))
    assert {"here 0", "here 1", "there"} <= set(logs.splitlines())
