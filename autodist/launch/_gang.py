"""Watching and ending the workers of a run, wherever they are."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from autodist.coordination import FailureNote


class Progress(Protocol):
    """The coordinator's knowledge about a worker."""

    @property
    def steps(self) -> int:
        """Training steps taken."""

    @property
    def in_step(self) -> bool | None:
        """True while it waits for other workers in a step or for one, False between steps, None when unknown."""

    @property
    def changed_s(self) -> float:
        """``time.monotonic()`` at which the number of steps last changed."""

    @property
    def pace_s(self) -> float:
        """How long each of the steps took that were reported last; 0 before there are some."""

    @property
    def heard_s(self) -> float:
        """``time.monotonic()`` at which the worker last said how far it is."""


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended.

    Attributes:
        exit_code: What it returned; None if a signal ended it.
        signal: Name of that signal; None if it returned.
    """

    exit_code: int | None
    signal: str | None = None

    @property
    def is_success(self) -> bool:
        """Whether it returned 0."""
        return self.exit_code == 0

    def __str__(self) -> str:
        return f"signal {self.signal}" if self.signal else f"exit code {self.exit_code}"


@dataclass(frozen=True)
class StartedWorker:
    """A worker that was started.

    Attributes:
        rank: The worker.
        host: Its host's name in the spec.
        pid: Its process id, as its machine numbers it.
    """

    rank: int
    host: str
    pid: int


class Gang(Protocol):
    """All workers of a run; none of the methods waits for anything."""

    @property
    def workers(self) -> Sequence[StartedWorker]:
        """All of them, by rank."""

    def signal(self, rank: int, signum: signal.Signals) -> None:
        """Send a signal to a worker, and to nothing that it has started; one that has ended gets none."""

    def release(self) -> None:
        """Let the workers write whatever they have, though nothing reads it: they are about to end."""

    def check_machines(self) -> None:
        """Have every machine answer that it is there; one that doesn't within seconds is :class:`Lost`."""

    @property
    def is_checked(self) -> bool:
        """Whether all machines have answered the last check, or are lost."""

    def stop(self, now: bool = False) -> None:
        """End all workers and all that they have started: TERM, KILL after the grace time; KILL at once if ``now``."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left after a ``stop``; every :class:`Exited` has been put into the queue before."""

    @property
    def num_left(self) -> int:
        """Processes that not even KILL has ended, as far as is known."""


@dataclass(frozen=True)
class Exited:
    """A worker's process has ended."""

    rank: int
    status: ExitStatus


@dataclass(frozen=True)
class Lost:
    """A machine can't be reached any more; its workers end there by themselves."""

    ranks: tuple[int, ...]
    reason: str


@dataclass(frozen=True)
class Reported:
    """A worker has said that it failed."""

    rank: int
    note: FailureNote


@dataclass(frozen=True)
class Interrupted:
    """The run should end."""

    signum: signal.Signals


Event = Exited | Lost | Reported | Interrupted
"""The events of a run."""
