"""The state of a run: the data, apart from how it is kept on disk and how it is drawn."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any


class RunState(Enum):
    """The state of a run."""

    STARTING = "starting"
    """Workers are being started, and none has taken a training step."""
    RUNNING = "running"
    """A worker has taken a training step."""
    STOPPING = "stopping"
    """The remaining workers are being ended."""
    RESTARTING = "restarting"
    """An attempt has failed, and the next is about to start."""
    ENDED = "ended"
    """The launcher has ended in order; the exit code says how the run went."""
    LOST = "lost"
    """The launcher was killed; found by who reads, never written."""
    SILENT = "silent"
    """The launcher is on another machine and has written nothing for a minute; found by who reads, never written."""


class WorkerState(Enum):
    """The state of a worker's process."""

    WAITING = "waiting"
    """It is not started yet."""
    RUNNING = "running"
    ENDED = "ended"
    LOST = "lost"
    """Its machine can't be reached any more, or the launcher was killed; either way the worker ends by itself."""


@dataclass(frozen=True)
class ProcessId:
    """A process that can't be mistaken for a later one with the same number.

    Attributes:
        host: Name of its machine, as the machine itself says.
        pid: Its number there.
        start_ticks: When it started, in the kernel's ticks after boot; None where ``/proc`` doesn't say.
        boot_id: Which start of the machine that was; empty where ``/proc`` doesn't say.
        namespace: The namespace in which the number counts; empty where ``/proc`` doesn't say.
    """

    host: str
    pid: int
    start_ticks: int | None = None
    boot_id: str = ""
    namespace: str = ""


@dataclass(frozen=True)
class WorkerStatus:
    """The state of one worker.

    Attributes:
        rank: The worker.
        host: Its host's name in the spec.
        pid: Its process on its machine; None before its start.
        state: What the process is doing.
        steps: Training steps taken.
        progressed_at: When it took the last; None before the first.
        exit_code: What it returned; None while it runs, or if a signal ended it.
        signal: Name of that signal.
    """

    rank: int
    host: str
    pid: int | None = None
    state: WorkerState = WorkerState.WAITING
    steps: int = 0
    progressed_at: datetime | None = None
    exit_code: int | None = None
    signal: str | None = None


@dataclass(frozen=True)
class RunStatus:
    """The state of a run; all times are in UTC.

    Attributes:
        run_id: Identity of the run.
        run_dir: Where its files are.
        state: What it is doing.
        attempt: How often it was restarted, from 0.
        launcher: The process of ``autodist run``.
        started_at: When the launcher began.
        updated_at: When the launcher last wrote this.
        ended_at: When the run ended; None while it goes on.
        exit_code: What ``autodist run`` returned; None while it goes on.
        workers: All workers, by rank.
        restarts_left: How often a run whose attempt has ended may still be restarted.
        command: What was started: ``run``, ``search``, ``profile``, ``timeline``.
        script: The script, as it was typed; empty if that is not known.
        strategy: The strategy; empty if that is not known yet.
        directory: Where it was started.
    """

    run_id: str
    run_dir: Path
    state: RunState
    attempt: int
    launcher: ProcessId
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    exit_code: int | None = None
    workers: tuple[WorkerStatus, ...] = ()
    restarts_left: int = 0
    command: str = "run"
    script: str = ""
    strategy: str = ""
    directory: str = ""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in (RunState.ENDED, RunState.LOST)

    @property
    def steps(self) -> int:
        """Training steps of the worker that has taken most."""
        return max((worker.steps for worker in self.workers), default=0)

    @property
    def duration(self) -> timedelta:
        """Time from the launcher's start to the end, or to its last sign of life."""
        return (self.ended_at or self.updated_at) - self.started_at

    def to_json(self) -> dict[str, Any]:
        """Return JSON values, without the directory, which may be moved."""
        data: dict[str, Any] = _plain(asdict(self))
        del data["run_dir"]
        return data

    @classmethod
    def from_json(cls, data: dict[str, Any], run_dir: Path) -> RunStatus:
        """Return the status that ``to_json`` made these values of; keys that it doesn't know are ignored.

        Raises:
            ValueError, TypeError, KeyError: They are not such values.
        """
        return cls(
            run_id=data["run_id"],
            run_dir=run_dir,
            state=RunState(data["state"]),
            attempt=data["attempt"],
            launcher=ProcessId(**data["launcher"]),
            started_at=datetime.fromisoformat(data["started_at"]),
            updated_at=datetime.fromisoformat(data["updated_at"]),
            ended_at=_time(data["ended_at"]),
            exit_code=data["exit_code"],
            workers=tuple(map(_worker, data["workers"])),
            restarts_left=data["restarts_left"],
            **{name: data[name] for name in ("command", "script", "strategy", "directory") if name in data},
        )


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return value.value if isinstance(value, Enum) else value


def _worker(data: dict[str, Any]) -> WorkerStatus:
    typed = {"state": WorkerState(data["state"]), "progressed_at": _time(data["progressed_at"])}
    return WorkerStatus(**{**data, **typed})


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
