"""Restarts of real processes; what checkpoints do in them is tested where checkpoints are."""

import json
import os
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import indent

import pytest

from autodist.errors import LaunchError, UsageError
from autodist.launch import Job, Launcher, LocalLauncher, RestartingLauncher
from autodist.launch._interrupts import Interrupts
from autodist.launch.run_files import read_status
from autodist.report import RunState
from autodist.resource_spec import ResourceSpec
from tests.processes import MARK

from .conftest import Recorder

ATTEMPT = "attempt = int(os.environ['AUTODIST_ATTEMPT'])\nw.steps_taken += 1\n"
KILLED = ATTEMPT + "if attempt < {kills} and w.rank == 1: os.kill(os.getpid(), signal.SIGKILL)\n"
SAYS = "print('attempt', attempt, os.environ['AUTODIST_SEED'])"
NOTE = "from autodist.coordination import CheckpointNote\nCheckpointNote({restored}, {saved}).tell(w.coordinator)\n"


@pytest.fixture
def run(bench):
    def run(text, workers=2, launcher=None, **settings):
        bench.observer = Recorder()
        env = {MARK: bench.mark}
        spec = ResourceSpec.local(workers, 1)
        job = Job(bench.script(text), spec, env=env, grace_s=2.0, **{"start_timeout_s": 30.0, **settings})
        restarting = RestartingLauncher(launcher or LocalLauncher(bench.observer), bench.observer, pause_s=0.05)
        return restarting.launch(job)

    return run


def test_a_killed_worker_comes_back(run, bench):
    result = run(KILLED.format(kills=2) + SAYS, max_restarts=2, seed=4)
    assert result.exit_code == 0
    assert [attempt.failure.signal for attempt in result.earlier] == ["SIGKILL", "SIGKILL"]
    assert bench.observer.texts(1) == ["attempt 2 4"]
    logs = result.run_dir / "logs"
    assert (logs / "1.log").read_text() == "attempt 2 4\n"
    assert {path.name for path in (logs / "attempt-0").iterdir()} == {"0.log", "1.log"}
    assert {path.name for path in (logs / "attempt-1").iterdir()} == {"0.log", "1.log"}
    assert [attempt.failure.log_path for attempt in result.earlier] == [logs / f"attempt-{k}" / "1.log" for k in (0, 1)]
    summary = json.loads((result.run_dir / "summary.json").read_text())
    assert [attempt["exit_code"] for attempt in summary["attempts"]] == [1, 1, 0]
    assert summary["exit_code"] == 0
    events = [json.loads(line) for line in (result.run_dir / "events.jsonl").read_text().splitlines()]
    assert [event["attempt"] for event in events if event["event"] == "restarting"] == [1, 2]
    assert [event["exit_code"] for event in events if event["event"] == "ended"] == [1, 1, 0]
    assert len({info.run_id for info in bench.observer.infos}) == 1
    assert bench.left() == []


@dataclass(frozen=True)
class Interrupted(Launcher):
    """Is interrupted just before and after an attempt, where only what starts the attempts can hear it."""

    launcher: Launcher
    before: int = -1
    after: int = -1

    def plan(self, job):
        return self.launcher.plan(job)

    def launch(self, job):
        if job.attempt == self.before:
            signal.raise_signal(signal.SIGINT)
        result = self.launcher.launch(job)
        if job.attempt == self.after:
            signal.raise_signal(signal.SIGINT)
        return result


@pytest.mark.parametrize(("moment", "which"), [("before", 1), ("after", 0)])
def test_ctrl_c_is_heard_between_attempts(run, bench, moment, which):
    """It ended the launcher by an exception, and the run was `lost`, not `ended`, ever after."""
    launcher = Interrupted(LocalLauncher(bench.observer), **{moment: which})
    result = run("os.kill(os.getpid(), signal.SIGKILL)", launcher=launcher, max_restarts=5)
    assert (result.exit_code, result.failure, len(result.earlier)) == (130, None, which)
    status = read_status(result.run_dir)
    assert (status.state, status.exit_code, status.attempt) == (RunState.ENDED, 130, which)
    assert bench.left() == []


def test_a_second_ctrl_c_is_not_kept():
    with Interrupts() as interrupts:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert interrupts.wait(0.0) is signal.SIGINT


@pytest.mark.slow
def test_restarts_are_used_up(run, bench):
    result = run(KILLED.format(kills=9), max_restarts=1)
    assert result.exit_code == 1
    assert len(result.earlier) == 1
    assert bench.left() == []


@pytest.mark.slow
def test_none_is_asked_for(run, bench):
    result = run(KILLED.format(kills=9))
    assert (result.exit_code, result.earlier) == (1, ())
    assert "attempts" not in json.loads((result.run_dir / "summary.json").read_text())


@pytest.mark.parametrize(
    ("text", "exit_code"),
    [
        pytest.param("sys.exit(2)", 2, marks=pytest.mark.slow),
        ("from autodist.errors import UsageError\nraise UsageError('no')", 2),
        (f"w.rank or os.kill({os.getpid()}, signal.SIGINT)\ntime.sleep(60)", 130),
    ],
    ids=["exit code", "error", "Ctrl-C"],
)
def test_what_no_restart_mends(text, exit_code, run, bench):
    result = run(text, max_restarts=3)
    assert (result.exit_code, result.earlier) == (exit_code, ())
    assert bench.left() == []


def test_ctrl_c_in_a_pause(run, bench):
    threading.Thread(target=_interrupt_when, args=(bench, "restart 1 of 1"), daemon=True).start()
    bench.observer.notices.clear()
    began = time.monotonic()
    job = Job(bench.script(KILLED.format(kills=9)), ResourceSpec.local(2, 1), env={MARK: bench.mark}, max_restarts=1)
    result = RestartingLauncher(LocalLauncher(bench.observer), bench.observer, pause_s=60.0).launch(job)
    assert (result.exit_code, result.failure) == (130, None)
    assert time.monotonic() - began < 50
    assert bench.left() == []


def _interrupt_when(bench, text):
    while not any(text in notice for notice in bench.observer.notices):
        time.sleep(0.02)
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)


# --- a strategy that was being tried out


TRIED = (
    ATTEMPT
    + "from autodist.coordination import CandidateNote\n"
    + "if not w.rank and attempt < {tries}: CandidateNote(f's{{attempt}}', f'plan {{attempt}}').tell(w.coordinator)\n"
    + "w.coordinator.barrier('told', 20)\n"
    + "if w.rank and attempt < 3: os.kill(os.getpid(), signal.SIGKILL)\n"
    + "print('left out', os.environ['AUTODIST_LEFT_OUT'])"
)


def test_what_was_tried_when_a_worker_died_is_left_out(run, bench):
    result = run(TRIED.format(tries=2), max_restarts=1)
    assert result.exit_code == 0
    assert len(result.earlier) == 3, "two that do not count, and one that does"
    assert bench.observer.texts(1) == ["left out s0 s1"]
    said = [notice for notice in bench.observer.notices if "restart" in notice or "left out" in notice]
    assert said[0].startswith("plan 0, a strategy that was being tried out, is left out; all workers start again in")
    assert said[2].startswith("restart 1 of 1 in")
    assert bench.left() == []


@pytest.mark.slow
def test_what_was_tried_is_not_to_blame_for_the_end_of_a_worker_that_was_asked_to_end(run):
    result = run(TRIED.format(tries=2).replace("SIGKILL", "SIGTERM"))
    assert (result.exit_code, result.earlier) == (1, ())


# --- the same failure again


FAILS = ATTEMPT + "w.steps_taken += 2\nif w.rank == 1: raise ValueError('the same')\ntime.sleep(60)"


def test_the_same_failure_twice_is_enough(run, bench):
    result = run(NOTE.format(restored=0, saved=0) + FAILS, max_restarts=5)
    assert result.exit_code == 1
    assert len(result.earlier) == 1
    assert "worker 1 has failed twice in the same way after 3 steps" in bench.observer.notices[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "difference",
    [
        NOTE.format(restored=0, saved="10 + int(os.environ['AUTODIST_ATTEMPT'])"),
        "w.steps_taken += int(os.environ['AUTODIST_ATTEMPT'])\n",
    ],
    ids=["checkpoint", "step"],
)
def test_another_failure_is_another(difference, run):
    result = run(difference + FAILS, max_restarts=2)
    assert len(result.earlier) == 2


# --- what is said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("pass", "since the script uses no checkpoint"),
        (NOTE.format(restored=0, saved=40), "training goes on after step 40"),
        (NOTE.format(restored=0, saved=0), "from the start"),
    ],
    ids=["no checkpoint", "checkpoint", "none so far"],
)
def test_where_the_next_attempt_begins(before, said, run, bench):
    script = (
        f"{ATTEMPT}if attempt == 0:\n    if w.rank: time.sleep(60)\n{indent(before, '    ')}\n    raise ValueError\n"
    )
    result = run(script, max_restarts=1)
    assert result.exit_code == 0
    [notice] = [notice for notice in bench.observer.notices if notice.startswith("restart")]
    assert notice.startswith("restart 1 of 1 in 0.05 s: ")
    assert said in notice
    assert (result.earlier[0].checkpoint is None) == (before == "pass")


# --- machines that do not come back at once


@dataclass(frozen=True)
class Absent(Launcher):
    """Its machines are away in some attempts."""

    launcher: Launcher
    absent: tuple[int, ...]

    def launch(self, job):
        if job.attempt in self.absent:
            raise LaunchError("`b` does not answer")
        return self.launcher.launch(job)


def test_a_machine_that_takes_its_time(run, bench):
    result = run(KILLED.format(kills=1), launcher=Absent(LocalLauncher(), (1, 2)), max_restarts=3)
    assert result.exit_code == 0
    assert len(result.earlier) == 1
    assert "attempt 2 could not be started: `b` does not answer" in bench.observer.notices
    assert {path.name for path in (result.run_dir / "logs").iterdir()} == {"0.log", "1.log", "attempt-0"}


@pytest.mark.slow
@pytest.mark.parametrize("absent", [(0,), (1, 2)])
def test_a_machine_that_never_comes(absent, run):
    with pytest.raises(LaunchError, match="`b` does not answer"):
        run(KILLED.format(kills=9), launcher=Absent(LocalLauncher(), absent), max_restarts=2)


# --- the job


@pytest.mark.slow
def test_graphs_of_each_attempt_have_a_place(bench, tmp_path):
    seen = []

    @dataclass(frozen=True)
    class Seeing(Launcher):
        def launch(self, job):
            seen.append(job.dump_graphs)
            (job.dump_graphs / "graph").mkdir(parents=True)
            return LocalLauncher().launch(replace(job, dump_graphs=None))

    script = bench.script(KILLED.format(kills=2))
    job = Job(script, ResourceSpec.local(2, 1), max_restarts=2, dump_graphs=tmp_path / "graphs")
    assert RestartingLauncher(Seeing(), pause_s=0.01).launch(job).exit_code == 0
    assert [str(path.relative_to(tmp_path)) for path in seen] == ["graphs", "graphs/attempt-1", "graphs/attempt-2"]


def test_a_negative_number_of_restarts(tmp_path: Path):
    (tmp_path / "train.py").touch()
    with pytest.raises(UsageError, match="`max_restarts` is -1"):
        Job(tmp_path / "train.py", ResourceSpec.local(1), max_restarts=-1)
