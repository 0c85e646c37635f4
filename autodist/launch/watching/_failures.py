"""From what was seen when a run broke to a report that names the cause."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from autodist.chatter import telling_lines
from autodist.coordination import FailureNote
from autodist.launch._gang import ExitStatus, StartedWorker
from autodist.launch.run_files import RunDirectory
from autodist.launch.watching._deadlines import Overdue
from autodist.report import FailureKind, FailureReport
from autodist.user_code import is_user_code

_TIMED_OUT = 124
_TAIL_LINES = 20
_STACK_LINES = 40
_READ_LINES = 1000
_FRAME = re.compile(r'  File "(?P<file>.+)", line (?P<line>\d+) in ')

_SIGNAL_HINTS = {
    "SIGKILL": "the kernel may have ended it because memory ran out (see `dmesg`), or somebody has killed it",
    "SIGSEGV": "native code has crashed; the log ends with the Python stack at that moment",
    "SIGABRT": "native code has given up; the log has the reason above the Python stack",
    "SIGBUS": "native code has crashed; is `/dev/shm` or a mapped file's disk full?",
}

_FILE_HINT = (
    "the script looked for it on `{host}`. Copy it there; or name it in the command, `autodist run --bring PATH`, "
    "which sends it along, and have the script read it next to itself, at `Path(__file__).parent`"
)
_EXIT = "sys.exit("


@dataclass(frozen=True)
class Symptom:
    """Something that went wrong with one worker.

    Attributes:
        rank: The worker.
        status: How its process ended; None while it runs.
        note: What it said about itself before; None if nothing.
        overdue: The bound it exceeded.
        lost: Why its machine can't be reached any more; empty while it can.
    """

    rank: int
    status: ExitStatus | None = None
    note: FailureNote | None = None
    overdue: Overdue | None = None
    lost: str = ""


@dataclass(frozen=True)
class Verdict:
    """How a run ended; after success there is neither a symptom nor a signal.

    Attributes:
        symptom: The cause of the failure.
        also_failed: The other workers that failed within moments, in the order of their ranks.
        is_everywhere: Whether all of these have failed with the same error.
        interrupted: The signal that ended the run.
    """

    symptom: Symptom | None = None
    also_failed: tuple[int, ...] = ()
    is_everywhere: bool = False
    interrupted: signal.Signals | None = None


def root_cause(symptoms: list[Symptom]) -> Symptom:
    """Return the symptom that has probably caused the others, out of those seen within moments, in their order.

    A worker that dies by a signal says nothing; the others notice it, and may report that sooner than the kernel
    reports the death. A machine that is gone says even less. In all other cases it is the first of those that did not
    just notice that another has failed; of several with one error, which all have in their script, the lowest rank.
    Native code that gives up because another worker has left, as libraries' threads do, is not the cause either.

    Example:
        >>> seen = [Symptom(0, note=FailureNote("connection lost")), Symptom(1, ExitStatus(None, "SIGKILL"))]
        >>> root_cause(seen).rank
        1
    """
    lost = [symptom for symptom in symptoms if symptom.lost]
    echoes = {symptom.rank for symptom in symptoms if symptom.note is not None and symptom.note.is_echo}
    own = [symptom for symptom in symptoms if symptom.rank not in echoes]
    killed = [
        symptom
        for at, symptom in enumerate(symptoms)
        if symptom.status is not None
        and symptom.status.signal
        and not (symptom.status.signal == "SIGABRT" and any(before.note and before in own for before in symptoms[:at]))
    ]
    first = (lost or killed or own or symptoms)[0]
    if first.note is None:
        return first
    message = first.note.message
    return min((of for of in symptoms if of.note and of.note.message == message), key=lambda symptom: symptom.rank)


def exit_code_of(symptom: Symptom) -> int:
    """Return what the run is to return: the failing worker's own code, 124 after a timeout, else 1."""
    if symptom.overdue is not None:
        return _TIMED_OUT
    status_code = symptom.status.exit_code if symptom.status is not None else None
    return status_code or (symptom.note.exit_code if symptom.note else 0) or 1


def report_failure(verdict: Verdict, symptom: Symptom, worker: StartedWorker, directory: RunDirectory) -> FailureReport:
    """Describe the cause, once the worker's log is complete."""
    overdue, status, note = symptom.overdue, symptom.status, symptom.note
    log = directory.log(symptom.rank)
    told = telling_lines(directory.tail(symptom.rank, _READ_LINES))
    tail = tuple(told[-(_STACK_LINES if overdue else _TAIL_LINES) :])
    has_said = note is not None and overdue is None and not symptom.lost
    return FailureReport(
        kind=_kind(symptom),
        rank=symptom.rank,
        host=worker.host,
        pid=worker.pid,
        exit_code=status.exit_code if status else (note.exit_code if note else None),
        signal=status.signal if status else None,
        message=overdue.message if overdue else _message(symptom, worker, tail),
        hint=overdue.hint if overdue else _hint(symptom, worker.host),
        log_path=log,
        tail=() if has_said else tail,
        also_failed=verdict.also_failed,
        is_everywhere=verdict.is_everywhere,
        place=note.place if note and has_said else "",
        trace=note.trace if note and has_said else (),
        cut=overdue.cut if overdue else (),
    )


def _kind(symptom: Symptom) -> FailureKind:
    if symptom.lost:
        return FailureKind.HOST_LOST
    return symptom.overdue.kind if symptom.overdue else FailureKind.FAILED


def _message(symptom: Symptom, worker: StartedWorker, tail: tuple[str, ...]) -> str:
    note = symptom.note
    if symptom.lost:
        return f"the host `{worker.host}` of worker {symptom.rank} was lost: {symptom.lost}"
    how = f"worker {symptom.rank} ended with {symptom.status or ExitStatus(note.exit_code if note else None)}"
    if note is None:
        place = _place_of_crash(tail)
        return f"{how} at {place}" if place else how
    where = f" at {note.place}" if note.place else ""
    # A script that ends by `sys.exit(2)` has usually said why just before, as `argparse` does.
    last = f" after the line `{tail[-1].strip()}`" if note.message.startswith(_EXIT) and tail else ""
    return f"{how}{where}: {note.message}{last}"


def _place_of_crash(tail: tuple[str, ...]) -> str:
    """Return the user's line in which native code has crashed, if the fault handler has written it."""
    start = max((at for at, line in enumerate(tail) if line.startswith("Current thread ")), default=len(tail))
    frames = filter(None, map(_FRAME.match, tail[start:]))
    return next((f"{frame['file']}:{frame['line']}" for frame in frames if is_user_code(frame["file"])), "")


def _hint(symptom: Symptom, host: str) -> str:
    status, note = symptom.status, symptom.note
    if symptom.lost:
        return "the machine may be down or cut off; workers on it end by themselves as soon as they miss the launcher"
    if status is not None and status.signal:
        return _SIGNAL_HINTS.get(status.signal, f"it was sent {status.signal}")
    is_elsewhere = host.partition("#")[0] != "localhost"
    if note is not None and note.hint:
        return note.hint
    if note is not None and is_elsewhere and note.message.startswith("FileNotFoundError"):
        return _FILE_HINT.format(host=host)
    return ""
