"""The data of a run that are shown, apart from how they are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


@dataclass(frozen=True)
class RunInfo:
    """The facts about a run when its workers start."""

    run_id: str
    run_dir: Path
    hosts: tuple[str, ...]
    strategy: str | None
    seed: int | None
    default_strategy: str | None = None

    @property
    def world_size(self) -> int:
        """Number of workers."""
        return len(self.hosts)


@dataclass(frozen=True)
class OutputLine:
    """A line that a worker wrote.

    Attributes:
        text: Without its end; may hold colours.
        is_error: Whether it went to standard error.
        is_update: Whether it is a state of a progress bar, which a later one replaces; such lines are in no log.
        is_last_word: Whether it is about the worker's own end with an error, which is reported as a whole.
    """

    text: str
    is_error: bool = False
    is_update: bool = False
    is_last_word: bool = False


class FailureKind(Enum):
    """Why a run failed."""

    FAILED = "failed"
    """A worker ended with an error."""
    NOT_STARTED = "not-started"
    """A worker came to no training step within the start timeout."""
    STALLED = "stalled"
    """A worker came to no further training step within the stall timeout."""
    ENDED_EARLY = "ended-early"
    """A worker ended without error while others still waited for it."""
    HOST_LOST = "host-lost"
    """The machine of a worker can't be reached any more."""
    UNREACHABLE = "unreachable"
    """Machines of workers answer the launcher, but not each other."""


@dataclass(frozen=True)
class FailureReport:
    """The first failure of a run.

    Attributes:
        kind: What went wrong.
        rank: The worker to blame.
        host: Its host's name.
        pid: Its process.
        exit_code: What it returned; None if it was ended by a signal or by the launcher.
        signal: Name of the signal that ended it, such as ``SIGKILL``; None if none did, or the launcher's own.
        message: One sentence.
        hint: What to do.
        log_path: Everything the worker wrote.
        tail: The last lines of it, if the worker has not said itself why it failed.
        also_failed: Ranks of the others that failed within moments, probably as a consequence.
        is_everywhere: Whether all of these failed with the same error.
        place: The user's line that the error comes from, ``"train.py:12"``; empty if there is none.
        trace: How the user's own code came there, a line for each call.
        cut: The pairs of workers that did not reach each other, if that was the reason.
    """

    kind: FailureKind
    rank: int
    host: str
    pid: int
    exit_code: int | None
    signal: str | None
    message: str
    hint: str
    log_path: Path
    tail: tuple[str, ...] = ()
    also_failed: tuple[int, ...] = ()
    is_everywhere: bool = False
    place: str = ""
    trace: tuple[str, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class CheckpointProgress:
    """The steps that checkpoints have spared an attempt, and spare the next one.

    Attributes:
        restored: Training steps that it did not have to repeat; 0 when it began from the start.
        saved: Training steps that the next attempt need not repeat.
    """

    restored: int
    saved: int


@dataclass(frozen=True)
class TriedStrategy:
    """A strategy that was being tried out when a run ended.

    Attributes:
        id: Its identity.
        words: What it does, in short.
    """

    id: str
    words: str


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
        exit_code: 0; the first failing worker's own code or 1; 124 after a timeout; 128 + signal if interrupted.
        failure: The first failure; None after success or an interruption.
        duration_s: From the first start to the last end.
        run_dir: Where its files are.
        world_size: Number of workers.
        steps: Training steps that the workers are known to have taken, the most of any.
        checkpoint: What checkpoints did for it; None if the script uses none.
        earlier: The attempts before this one, which failed, in their order.
        away: The other machines, the chief's first, each with the directory in which its workers' files are.
        tried: The strategy that was being tried out when it failed; None if it trained by its own.
    """

    exit_code: int
    failure: FailureReport | None
    duration_s: float
    run_dir: Path
    world_size: int = 1
    steps: int = 0
    checkpoint: CheckpointProgress | None = None
    earlier: tuple[RunResult, ...] = ()
    away: tuple[tuple[str, str], ...] = ()
    tried: TriedStrategy | None = None


@dataclass(frozen=True)
class PlannedWorker:
    """A worker that would be started.

    Attributes:
        rank: The worker.
        host: Its host's name.
        argv: Program and arguments.
        env: The variables that the launcher sets for it, without secrets.
        directory: Its working directory.
        brought: Files that would be sent there, unless the machine has them at the same place.
        transport: How its machine is reached.
    """

    rank: int
    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    directory: str = "."
    brought: tuple[str, ...] = ()
    transport: str = "local"
