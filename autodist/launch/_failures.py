"""From what was seen when a run broke to a report that names the cause."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autodist.launch._deadlines import Overdue
from autodist.launch._gang import ExitStatus, StartedWorker
from autodist.launch._run_directory import RunDirectory
from autodist.report import FailureKind, FailureReport

__all__ = ["Symptom", "exit_code_of", "report_failure", "root_cause"]

_TIMED_OUT = 124
_TAIL_LINES = 20
_STACK_LINES = 40

_SIGNAL_HINTS = {
    "SIGKILL": "the kernel may have ended it because memory ran out (see `dmesg`), or somebody has killed it",
    "SIGSEGV": "native code has crashed; the log ends with the Python stack at that moment",
    "SIGABRT": "native code has given up; the reason stands above the Python stack in the log",
    "SIGBUS": "native code has crashed; is `/dev/shm` or a mapped file's disk full?",
}

_ERROR_HINTS = {
    "FileNotFoundError": "files are looked for on `{host}`, relative paths from the working directory there; what "
    "`--bring` sends is beside the script, at `Path(__file__).parent`",
    "ModuleNotFoundError": "install it on `{host}` for the interpreter of its worker, or have it beside the script",
}


@dataclass(frozen=True)
class Symptom:
    """Something that went wrong with one worker.

    Attributes:
        rank: The worker.
        status: How its process ended; None while it runs.
        message: What it said about itself before; empty if nothing.
        exit_code: What it said it would return; None if it said nothing.
        overdue: The bound it exceeded.
        lost: Why its machine can't be reached any more; empty while it can.

    """

    rank: int
    status: ExitStatus | None = None
    message: str = ""
    exit_code: int | None = None
    overdue: Overdue | None = None
    lost: str = ""


def root_cause(symptoms: list[Symptom]) -> Symptom:
    """Return the symptom that has probably caused the others, out of those seen within moments, in their order.

    A worker that dies by a signal says nothing; the others notice it, and may report that sooner than the kernel
    reports the death. A machine that is gone says even less. In all other cases the first is the cause.

    Example:
        >>> seen = [Symptom(0, message="connection lost"), Symptom(1, ExitStatus(None, "SIGKILL"))]
        >>> root_cause(seen).rank
        1

    """
    killed = [symptom for symptom in symptoms if symptom.status is not None and symptom.status.signal]
    lost = [symptom for symptom in symptoms if symptom.lost]
    return (lost or killed or symptoms)[0]


def exit_code_of(symptom: Symptom) -> int:
    """Return what the run is to return: the failing worker's own code, 124 after a timeout, else 1."""
    if symptom.overdue is not None:
        return _TIMED_OUT
    status_code = symptom.status.exit_code if symptom.status is not None else None
    return status_code or symptom.exit_code or 1


def report_failure(
    symptom: Symptom, worker: StartedWorker, directory: RunDirectory, also_failed: tuple[int, ...] = ()
) -> FailureReport:
    """Describe the cause, once the worker's log is complete."""
    overdue, status = symptom.overdue, symptom.status
    log = directory.log(symptom.rank)
    return FailureReport(
        kind=_kind(symptom),
        rank=symptom.rank,
        host=worker.host,
        pid=worker.pid,
        exit_code=symptom.exit_code if status is None else status.exit_code,
        signal=status.signal if status else None,
        message=overdue.message if overdue else _message(symptom, worker),
        hint=overdue.hint if overdue else _hint(symptom, worker.host, log),
        log_path=log,
        tail=directory.tail(symptom.rank, _STACK_LINES if overdue else _TAIL_LINES),
        also_failed=also_failed,
    )


def _kind(symptom: Symptom) -> FailureKind:
    if symptom.lost:
        return FailureKind.HOST_LOST
    return symptom.overdue.kind if symptom.overdue else FailureKind.FAILED


def _message(symptom: Symptom, worker: StartedWorker) -> str:
    if symptom.lost:
        return f"the host `{worker.host}` of worker {symptom.rank} was lost: {symptom.lost}"
    how = str(symptom.status or ExitStatus(symptom.exit_code))
    said = f": {symptom.message}" if symptom.message else ""
    return f"worker {symptom.rank} ended with {how}{said}"


def _hint(symptom: Symptom, host: str, log: Path) -> str:
    status = symptom.status
    if symptom.lost:
        return "the machine may be down or cut off; workers on it end by themselves as soon as they miss the launcher"
    if status is not None and status.signal:
        return _SIGNAL_HINTS.get(status.signal, f"somebody has sent it {status.signal}")
    hints = () if host.partition("#")[0] == "localhost" else _ERROR_HINTS.items()
    return next(
        (hint.format(host=host) for start, hint in hints if symptom.message.startswith(start)),
        f"all that it wrote is in `{log}`",
    )
