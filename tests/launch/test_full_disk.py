"""The disk of the launcher, where a run's logs and notes are, becomes full: the run goes on, and may start again."""

from autodist.launch import Job, LocalLauncher, RestartingLauncher
from autodist.resource_spec import ResourceSpec
from tests.processes import MARK

FILLS = """
import contextlib
if w.rank == 0:
    with open(sys.argv[1], 'ab', buffering=0) as file, contextlib.suppress(OSError):
        while True: file.write(b'x' * 512)
w.steps_taken += 1
w.coordinator.barrier('full', 20.0)
print('it is full', flush=True)
if w.rank == 1 and os.environ['AUTODIST_ATTEMPT'] == '0': os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_run_goes_on_and_starts_again(bench, small_disk):
    job = Job(
        bench.script(FILLS),
        ResourceSpec.local(2, 1),
        script_args=(str(small_disk / "filling"),),
        run_dir=small_disk / "run",
        env={MARK: bench.mark},
        max_restarts=1,
        grace_s=2.0,
        start_timeout_s=30.0,
    )
    result = RestartingLauncher(LocalLauncher(bench.observer), bench.observer, pause_s=0.05).launch(job)
    assert result.exit_code == 0
    assert [attempt.failure.signal for attempt in result.earlier] == ["SIGKILL"]
    told = "\n".join(bench.observer.notices)
    assert "summary.json` can't be written: No space left on device" in told
    assert all("it is full" in bench.observer.texts(rank) for rank in (0, 1)), "lines that no log takes are shown"
    assert any("the log can't be written any more" in text for text in bench.observer.texts(0))
    assert bench.left() == []
