"""When a run has waited long enough, and for whom: pure decisions on what the workers have reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autodist.launch._base import Job
from autodist.launch._gang import Progress
from autodist.report import FailureKind

_IDLE = 0.5  # share of the allowed time
_SLOW = 2.0
_SILENCE_S = 10.0  # workers say every two seconds how far they are


@dataclass(frozen=True)
class WorkersProgress:
    """The state of the workers of a run; all times are ``time.monotonic()``.

    Attributes:
        started_s: When each worker was started.
        ended_s: When each of those that have ended (without error) did so.
        progress: What each worker has last reported.
    """

    started_s: Mapping[int, float]
    ended_s: Mapping[int, float]
    progress: Mapping[int, Progress]

    @property
    def running(self) -> tuple[int, ...]:
        """The workers that have not ended."""
        return tuple(rank for rank in self.started_s if rank not in self.ended_s)

    def steps(self, rank: int) -> int:
        """Training steps that a worker is known to have taken."""
        return self.progress[rank].steps if rank in self.progress else 0

    def is_elsewhere(self, rank: int) -> bool:
        """Whether a worker is known to be outside of steps, and waits for no other: it loads data, saves, evaluates."""
        return rank in self.progress and self.progress[rank].in_step is False

    def is_late(self, rank: int, now_s: float) -> bool:
        """Whether a worker is known to be in a step, or to connect, for much longer than its steps take."""
        known = self.progress.get(rank)
        return known is not None and known.in_step is True and now_s - self.last_step_s(rank) >= _SLOW * known.pace_s

    def is_silent(self, rank: int, now_s: float) -> bool:
        """Whether a worker has stopped reporting its progress, which it does whatever its script does."""
        return rank in self.progress and now_s - self.progress[rank].heard_s >= _SILENCE_S

    def last_step_s(self, rank: int) -> float:
        """When a worker took its last step, or when it started."""
        return self.progress[rank].changed_s if self.steps(rank) else self.started_s[rank]


@dataclass(frozen=True)
class Overdue:
    """A bound that was exceeded.

    Attributes:
        kind: Which one.
        rank: The worker to blame.
        message: One sentence.
        hint: What to do.
        cut: The pairs of workers that don't reach each other, if that is the reason.
    """

    kind: FailureKind
    rank: int
    message: str
    hint: str
    cut: tuple[tuple[int, int], ...] = ()


def find_overdue(job: Job, standing: WorkersProgress, now_s: float) -> Overdue | None:
    """Return the bound of the job that is exceeded at ``now_s``, or None."""
    return _waits_for_ended(job, standing, now_s) or _no_step(job, standing, now_s)


def _waits_for_ended(job: Job, standing: WorkersProgress, now_s: float) -> Overdue | None:
    """Find out whether some have ended while all others wait without making a step."""
    running = standing.running
    if not job.finish_timeout_s or not standing.ended_s or not running:
        return None
    if any(standing.is_elsewhere(rank) for rank in running):
        return None
    since_s = max([*standing.ended_s.values(), *(standing.last_step_s(rank) for rank in running)])
    if now_s - since_s <= job.finish_timeout_s:
        return None
    first = min(standing.ended_s, key=lambda rank: standing.ended_s[rank])
    return Overdue(
        FailureKind.ENDED_EARLY,
        first,
        f"{_workers(standing.ended_s)} ended without an error after {_steps(standing.steps(first))}, while "
        f"{_workers(running)} made no step for {job.finish_timeout_s:g} s and had not ended",
        "all workers must take the same number of steps: look for a condition on the rank or on a worker's own data",
    )


def _no_step(job: Job, standing: WorkersProgress, now_s: float) -> Overdue | None:
    """Find a worker that made no step for too long; of several, the one that the others probably wait for."""
    if not any(_lateness(job, standing, rank, now_s) > 1.0 for rank in standing.running):
        return None
    # Workers that wait for one another stop within moments; which of them is late first says nothing.
    idle = [rank for rank in standing.running if _lateness(job, standing, rank, now_s) > _IDLE]
    silent = [rank for rank in standing.running if standing.is_silent(rank, now_s)]
    if silent:
        return _silent(standing, silent, sorted(set(idle) - set(silent)), now_s)
    rank = min(idle, key=lambda rank: (standing.steps(rank), not standing.is_elsewhere(rank), rank))
    others = tuple(other for other in idle if other != rank)
    nor = f", nor did {_workers(others)}" if others else ""
    if standing.steps(rank) == 0:
        return Overdue(
            FailureKind.NOT_STARTED,
            rank,
            f"worker {rank} made no training step within {job.start_timeout_s:g} s of its start{nor}",
            "if it only needs longer, as on a busy machine, raise `--start-timeout` (0 waits for ever); its Python "
            "stack is in its log",
        )
    return Overdue(
        FailureKind.STALLED,
        rank,
        f"worker {rank} made no training step for {job.stall_timeout_s:g} s, after {_steps(standing.steps(rank))}{nor}",
        "if its steps take that long, raise `--stall-timeout` (0 waits for ever); its Python stack is in its log",
    )


def _silent(standing: WorkersProgress, silent: Sequence[int], waiting: Sequence[int], now_s: float) -> Overdue:
    """Blame a process that doesn't run; the steps that it has taken since its last report are not known."""
    rank = min(silent, key=lambda rank: (standing.progress[rank].heard_s, rank))
    others = f", and {_workers(tuple(waiting))} made no training step" if waiting else ""
    return Overdue(
        FailureKind.STALLED,
        rank,
        f"worker {rank} has said nothing for {now_s - standing.progress[rank].heard_s:.0f} s{others}",
        "its process does not run: is it stopped (SIGSTOP, Ctrl-Z, a debugger), or does its host swap? `ps -o stat "
        "-p PID` tells there",
    )


def _lateness(job: Job, standing: WorkersProgress, rank: int, now_s: float) -> float:
    """Time without a step in parts of what is allowed; above 1 is too late."""
    bound_s = job.stall_timeout_s if standing.steps(rank) else job.start_timeout_s
    return (now_s - standing.last_step_s(rank)) / bound_s if bound_s > 0 else 0.0


def _steps(number: int) -> str:
    return "1 step" if number == 1 else f"{number} steps"


def _workers(ranks: Mapping[int, float] | tuple[int, ...]) -> str:
    listed = ", ".join(str(rank) for rank in sorted(ranks))
    return f"worker {listed}" if len(ranks) == 1 else f"workers {listed}"
