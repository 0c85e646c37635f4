"""Every error a user can meet.

    AutoDistError                 exit code
    ├── UsageError        (ValueError)   2   a wrong argument or option
    ├── SpecError         (ValueError)   2   a resource spec with mistakes, all of them listed
    ├── StrategyError     (ValueError)   2   an unknown builder, or a strategy that `verify` refuses
    ├── CaptureError      (ValueError)   2   a training step that can't be captured
    │   └── FixedRowsError               2   one that needs all rows of its batch, where replicas have parts
    ├── SimulatorError    (ValueError)   2   a profile or learned simulator that can't be used
    ├── GraphError        (ValueError)   2   a file of a training graph that can't be read or written
    ├── NotInstalled      (ImportError)  1   something that AutoDist needs is not installed
    ├── StoreError                       1   a trial store that can't be read or written
    ├── LaunchError                      1   workers could not be started
    │   └── HostUnreachable              1   a machine can't be reached, or not be used, or was lost
    ├── WorkerFailed                     1   a worker ended with an error (or its own exit code)
    ├── SearchFailed                     1   a search in which no strategy could be measured
    ├── SpaceEmpty                       3   a search in which the user's constraints or memory leave no strategy
    ├── CheckpointFailed                74   checkpoints that a disk does not take, or does not give away
    ├── CertificateFailed                3   distributed and single-device results differ
    ├── ConformanceFailed                3   a builder, compressor or kernel breaks its contract
    └── TimedOut          (TimeoutError) 124 a bounded wait ran out

A message says what was given and what is allowed; ``hint`` says what to do.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AutoDistError",
    "CaptureError",
    "CertificateFailed",
    "CheckpointFailed",
    "ConformanceFailed",
    "FixedRowsError",
    "GraphError",
    "HostUnreachable",
    "LaunchError",
    "NotInstalled",
    "SearchFailed",
    "SimulatorError",
    "SpaceEmpty",
    "SpecError",
    "StoreError",
    "StrategyError",
    "TimedOut",
    "UsageError",
    "WorkerFailed",
]


class AutoDistError(Exception):
    """The root of all errors raised on purpose.

    Args:
        message: One sentence (or one line per mistake): what was given, what is allowed.
        hint: What to do about it, in Python and on the command line.
        exit_code: Replaces the class' own process exit code.

    Example:
        >>> str(UsageError("`workers` is 0, it must be at least 1", hint="give `--workers 1`"))
        '`workers` is 0, it must be at least 1 (hint: give `--workers 1`)'
    """

    exit_code: int = 1
    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint or self.default_hint
        if exit_code is not None:
            self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message} (hint: {self.hint})" if self.hint else self.message


class UsageError(AutoDistError, ValueError):
    """An argument or option that is not allowed."""

    exit_code = 2


class SpecError(AutoDistError, ValueError):
    """A resource spec with mistakes; the message lists all of them."""

    exit_code = 2


class StrategyError(AutoDistError, ValueError):
    """An unknown builder, or a strategy that does not fit the graph and the cluster; all reasons are listed."""

    exit_code = 2


class CaptureError(AutoDistError, ValueError):
    """A training step that can't be captured; names the op and the user's line."""

    exit_code = 2


class FixedRowsError(CaptureError):
    """A training step that works for one number of rows only, so that replicas can't share its batch."""


class OtherLengthsError(CaptureError):
    """A step that is traced for batches of many lengths, of which a call has another one."""


class GraphError(AutoDistError, ValueError):
    """A file of a training graph that can't be read or written; names the file."""

    exit_code = 2


class SimulatorError(AutoDistError, ValueError):
    """A profile or learned simulator that can't be used; says why."""

    exit_code = 2


class NotInstalled(AutoDistError, ImportError):
    """Something that AutoDist needs is not installed, or not in a version that it works with."""


class StoreError(AutoDistError):
    """A trial store that can't be read or written; names the file."""


class LaunchError(AutoDistError):
    """Workers could not be started."""


class HostUnreachable(LaunchError):
    """A machine can't be reached, has nothing that could hold workers, or was lost; the hint says how to repair it.

    Args:
        message: One sentence that names the machine.
        hint: What to do about it.
        address: The machine's address, so that many failures can be shown as a table.
    """

    def __init__(self, message: str, *, hint: str | None = None, address: str = "") -> None:
        super().__init__(message, hint=hint)
        self.address = address


class WorkerFailed(AutoDistError):
    """A worker ended with an error; the first one to fail is named."""


class SearchFailed(AutoDistError):
    """A search in which no strategy could be measured; says why.

    Args:
        message: What happened.
        hint: What to do about it.
        trial: The number of a failed trial that is worth repeating.

    Attributes:
        study: In which search of the trial store it is, None where that is not known.
    """

    def __init__(self, message: str, hint: str, trial: int | None = None) -> None:
        super().__init__(message, hint=hint)
        self.trial = trial
        self.study: int | None = None


class SearchInterrupted(AutoDistError):
    """A search that was ended from outside; what it has measured is stored."""

    exit_code = 130


class SpaceEmpty(AutoDistError):
    """A search in which the user's constraints, or the hosts' memory, leave no strategy; names those to drop."""

    exit_code = 3


class CertificateFailed(AutoDistError):
    """The distributed run does not equal the single-device run."""

    exit_code = 3


class CheckpointFailed(AutoDistError):
    """Checkpoints can't be written, several times in a row, or not be read at the moment; the older ones are kept.

    The exit code is that of the system for errors of input and output, ``EX_IOERR``.
    """

    exit_code = 74


class ConformanceFailed(AutoDistError):
    """A builder, a compressor or a kernel breaks its contract; the message lists how."""

    exit_code = 3


class TimedOut(AutoDistError, TimeoutError):
    """A bounded wait ran out."""

    exit_code = 124
