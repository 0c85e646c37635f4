"""Restarts: after a failure all workers start again, and go on from the newest checkpoint."""

from __future__ import annotations

import itertools
import signal
from dataclasses import dataclass, field, replace

from autodist.coordination import CandidateNote, CheckpointNote, CoordinatorServer
from autodist.error_text import said_by
from autodist.errors import LaunchError
from autodist.launch._base import Job, Launcher, RunObserver
from autodist.launch._interrupts import Interrupts
from autodist.launch.run_files import RunDirectory, end_restarts
from autodist.report import CheckpointProgress, FailureKind, RunConsole, RunResult, TriedStrategy
from autodist.wording import counted

_USAGE_ERROR = 2
_LONGEST_PAUSE_S = 60.0
_SENT_BY_OTHERS = frozenset({"SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"})
_ASKED_TO_END = _SENT_BY_OTHERS - {"SIGKILL"}
_OF_STRATEGIES = (FailureKind.FAILED, FailureKind.STALLED)


@dataclass(frozen=True)
class RestartingLauncher(Launcher):
    """Launches a job again after a failure, up to ``job.max_restarts`` times.

    Every attempt is a run of all workers from the start of the script, in one run directory; what was trained comes
    back from checkpoints (:class:`autodist.BackupAndRestore`, :meth:`autodist.AutoDist.checkpoint`). There is no
    restart after Ctrl-C, after a mistake of the user (exit code 2), and when the same failure has come twice in a row
    at the same step without a new checkpoint in between.
    A strategy that was being tried out when the run failed is left out, and the restart without it does not count.

    Attributes:
        launcher: Makes each attempt.
        observer: Is called before restarts; the default shows them on the console.
        pause_s: Before the first restart; each further pause is twice as long, up to a minute.

    Example:
        >>> launcher = RestartingLauncher(LocalLauncher())                                       # doctest: +SKIP
        >>> result = launcher.launch(Job(Path("train.py"), spec, max_restarts=3))                # doctest: +SKIP
        >>> result.exit_code, [attempt.failure.message for attempt in result.earlier]            # doctest: +SKIP
        (0, ['worker 1 ended with signal SIGKILL'])
    """

    launcher: Launcher
    observer: RunObserver = field(default_factory=RunConsole)
    pause_s: float = 1.0

    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end, whatever number of attempts that takes.

        Raises:
            LaunchError: The workers could not be started, in the first attempt or in the last one.
        """
        with Interrupts() as interrupts:  # from before the first attempt until after the last one
            return self._launch(job, interrupts)

    def _launch(self, job: Job, interrupts: Interrupts) -> RunResult:
        attempts: list[RunResult] = []
        left_out: tuple[str, ...] = ()
        directory: RunDirectory | None = None
        for attempt in itertools.count():
            is_last = attempt == job.max_restarts + len(left_out)
            cut = attempts[-1].failure.cut if attempts and attempts[-1].failure else ()
            result = self._attempt(_again(job, attempt, directory, cut, left_out), is_last=is_last)
            if result is not None:
                attempts.append(result)
                directory = RunDirectory("", result.run_dir)
            assert directory is not None, "the first attempt has a result"
            tried = None if result is None else blamed_strategy(result)
            if tried is not None:
                left_out = (*left_out, tried.id)
            if _is_over(attempts[-1]) or (is_last and tried is None):
                break
            if result is not None and _is_repeated(attempts):
                self.observer.notice(_repetition(result))
                break
            again = f"restart {attempt + 1 - len(left_out)} of {job.max_restarts}" if tried is None else _without(tried)
            interrupted = self._pause(attempt, again, attempts[-1], directory, interrupts)
            if interrupted is not None:
                attempts[-1] = replace(attempts[-1], exit_code=128 + interrupted, failure=None)
                break
            if result is not None:
                attempts[-1] = self._with_logs_aside(result, attempt, directory)
        return _conclusion(attempts, job)

    def _attempt(self, job: Job, is_last: bool) -> RunResult | None:
        """None if a later attempt could not even be started: a machine may need its time to come back."""
        try:
            return self.launcher.launch(job)
        except LaunchError as error:
            if job.attempt == 0 or is_last:
                raise
            self.observer.notice(f"attempt {job.attempt + 1} could not be started: {error.message}")
            return None

    def _with_logs_aside(self, result: RunResult, attempt: int, directory: RunDirectory) -> RunResult:
        """Put the logs of an attempt aside, and return its result with the place where they are."""
        try:
            logs = directory.put_logs_aside(attempt)
        except OSError as error:
            self.observer.notice(f"the logs of the failed attempt stay in {directory.logs}: {said_by(error)}")
            return result
        self.observer.notice(f"the logs of the failed attempt are in {logs} now")
        assert result.failure is not None
        return replace(result, failure=replace(result.failure, log_path=logs / result.failure.log_path.name))

    def _pause(
        self, attempt: int, again: str, failed: RunResult, directory: RunDirectory, interrupts: Interrupts
    ) -> signal.Signals | None:
        """Say how it goes on, and wait; the signal that ended the wait if one did, or came since the attempt ended."""
        pause_s = min(self.pause_s * 2**attempt, _LONGEST_PAUSE_S)
        self.observer.notice(f"{again} in {pause_s:g} s: {_origin(failed)}")
        directory.event("restarting", attempt=attempt + 1, pause_s=pause_s, step=_saved(failed))
        return interrupts.wait(pause_s)


def checkpoint_progress(coordinator: CoordinatorServer) -> CheckpointProgress | None:
    """Return what the chief has reported about checkpoints; None if the script uses none."""
    note = CheckpointNote.heard(coordinator)
    return None if note is None else CheckpointProgress(note.restored, note.saved)


def tried_strategy(coordinator: CoordinatorServer) -> TriedStrategy | None:
    """Return what the chief has reported about a strategy that is being tried out."""
    note = CandidateNote.heard(coordinator)
    return None if note is None else TriedStrategy(note.id, note.words)


def _again(
    job: Job,
    attempt: int,
    directory: RunDirectory | None,
    cut: tuple[tuple[int, int], ...],
    left_out: tuple[str, ...],
) -> Job:
    """Return the job of an attempt."""
    if attempt == 0 or directory is None:
        return job
    graphs = None if job.dump_graphs is None else job.dump_graphs / f"attempt-{attempt}"
    return replace(job, attempt=attempt, cut=cut, left_out=left_out, run_dir=directory.path, dump_graphs=graphs)


def _is_over(result: RunResult) -> bool:
    """Whether a run has succeeded, was interrupted, or will fail again for sure."""
    return result.failure is None or result.exit_code == _USAGE_ERROR


def blamed_strategy(result: RunResult) -> TriedStrategy | None:
    """The strategy that was being tried out when a run failed, if it may be why."""
    failure = result.failure
    if failure is None or failure.kind not in _OF_STRATEGIES or failure.signal in _ASKED_TO_END:
        return None
    return None if result.exit_code == _USAGE_ERROR else result.tried


def _without(tried: TriedStrategy) -> str:
    return f"{tried.words}, a strategy that was being tried out, is left out; all workers start again"


def _is_repeated(attempts: list[RunResult]) -> bool:
    """Whether the last two attempts have failed in the same way, by themselves, at the same step."""
    if len(attempts) < 2:
        return False
    before, now = (attempt.failure for attempt in attempts[-2:])
    assert before is not None
    assert now is not None
    if now.signal in _SENT_BY_OTHERS or (before.rank, before.message) != (now.rank, now.message):
        return False
    return _position(attempts[-2]) == _position(attempts[-1])


def _position(result: RunResult) -> tuple[int, int]:
    """Return the step at which an attempt failed, and that of the newest checkpoint then."""
    restored = result.checkpoint.restored if result.checkpoint is not None else 0
    return restored + result.steps, _saved(result)


def _saved(result: RunResult) -> int:
    return result.checkpoint.saved if result.checkpoint is not None else 0


def _repetition(result: RunResult) -> str:
    assert result.failure is not None
    step, _ = _position(result)
    return (
        f"no further restart: worker {result.failure.rank} has failed twice in the same way after "
        f"{counted(step, 'step')}, without a new checkpoint in between"
    )


def _origin(failed: RunResult) -> str:
    """Return where the next attempt begins."""
    if failed.checkpoint is not None:
        return f"training goes on after step {failed.checkpoint.saved}" if failed.checkpoint.saved else "from the start"
    if not failed.steps:
        return "from the start"
    return "training starts over, since the script uses no checkpoint (`autodist.BackupAndRestore`, `ad.checkpoint`)"


def _conclusion(attempts: list[RunResult], job: Job) -> RunResult:
    """Return the last attempt with the earlier ones, and keep them all on disk."""
    result = replace(attempts[-1], earlier=tuple(attempts[:-1]))
    if job.max_restarts or len(attempts) > 1:
        RunDirectory("", result.run_dir).amend_summary(attempts=[_row(attempt) for attempt in attempts])
        end_restarts(result.run_dir, result.exit_code)
    return result


def _row(result: RunResult) -> dict[str, object]:
    return {
        "exit_code": result.exit_code,
        "duration_s": round(result.duration_s, 3),
        "steps": result.steps,
        "restored": result.checkpoint and result.checkpoint.restored,
        "saved": result.checkpoint and result.checkpoint.saved,
        "failure": result.failure and result.failure.message,
    }
