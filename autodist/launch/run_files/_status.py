"""``status.json`` of a run: its launcher writes it, and anybody may read the state of the run."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

from autodist.documents import whole_file
from autodist.errors import AutoDistError, LaunchError
from autodist.launch._gang import Progress
from autodist.launch.run_files._process_id import is_alive, this_process
from autodist.launch.run_files._run_directory import RunDirectory
from autodist.report import RunState, RunStatus, WorkerState, WorkerStatus

STATUS_FILE = "status.json"
_SCHEMA_VERSION = 1
_BETWEEN_WRITES_S = 2.0
_SILENT_S = 60.0
_HEAD_CHARACTERS = 4096
_BUILDER = re.compile(r'"builder": ("(?:[^"\\]|\\.)*")')


class StatusKeeper:
    """Keeps ``status.json`` of one run up to date; a context manager, and safe from any thread.

    What changes a state is written at once, progress every two seconds, and nothing that goes wrong with the file
    (a full disk) reaches the run. Leaving by an error before :meth:`end` was called notes the error's exit code.

    Args:
        directory: Directory of the run.
        hosts: Name of each worker's host, by rank.
        attempt: How often the run was started before; its beginning is that of the first attempt.
        restarts_left: How often it may be started again.
        what: Further fields of :class:`RunStatus`: what was started.

    Example:
        >>> with StatusKeeper(directory, ["localhost"]) as status:             # doctest: +SKIP
        ...     status.worker_started(0, pid=4711)
        ...     status.progressed(coordinator.progress())
        ...     status.worker_ended(0, exit_code=0)
        ...     status.end(exit_code=0)
    """

    def __init__(
        self, directory: RunDirectory, hosts: Sequence[str], attempt: int = 0, restarts_left: int = 0, **what: Any
    ) -> None:
        now = _now()
        began = read_status(directory.path).started_at if attempt else now
        workers = tuple(WorkerStatus(rank, host) for rank, host in enumerate(hosts))
        self._path = directory.path / STATUS_FILE
        self._lock = threading.Lock()
        self._written_s = float("-inf")
        self._restarts_left = restarts_left
        self._status = RunStatus(
            directory.run_id, directory.path, RunState.STARTING, attempt, this_process(), began, now,
            workers=workers, directory=os.getcwd(), **what,
        )  # fmt: skip

    def __enter__(self) -> StatusKeeper:
        with self._lock:
            self._write()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status.state is not RunState.ENDED:
            can_be_tried_again = isinstance(error, LaunchError) and self._status.attempt > 0
            self.end(error.exit_code if isinstance(error, AutoDistError) else 1, is_final=not can_be_tried_again)

    def enter(self, state: RunState) -> None:
        """Note what the run is doing now."""
        with self._lock:
            self._change(state=state)

    def worker_started(self, rank: int, pid: int) -> None:
        """Note that a worker's process has started."""
        self._change_worker(rank, pid=pid, state=WorkerState.RUNNING)

    def worker_ended(self, rank: int, exit_code: int | None, signal: str | None = None) -> None:
        """Note how a worker's process has ended."""
        self._change_worker(rank, state=WorkerState.ENDED, exit_code=exit_code, signal=signal)

    def workers_lost(self, ranks: Collection[int]) -> None:
        """Note that the machine of these workers can't be reached any more; those that had ended have ended."""
        for worker in self._status.workers:
            if worker.rank in ranks and worker.state is WorkerState.RUNNING:
                self._change_worker(worker.rank, state=WorkerState.LOST)

    def progressed(self, progress: Mapping[int, Progress]) -> None:
        """Note the steps taken; may be called as often as one likes, it is written every few seconds."""
        with self._lock:
            workers = tuple(_progressed(worker, progress) for worker in self._status.workers)
            self._status = replace(self._status, workers=workers)
            if self._status.state is RunState.STARTING and any(worker.steps for worker in workers):
                self._change(state=RunState.RUNNING)
            elif time.monotonic() - self._written_s >= _BETWEEN_WRITES_S:
                self._write()

    def end(self, exit_code: int, is_final: bool = True, *, one_more: bool = False) -> None:
        """Note that the attempt is over, and, if it is final or no restart is left, the run as well.

        Args:
            exit_code: That of the attempt.
            is_final: Whether it is not started again.
            one_more: Whether it is started again even if no restart is left.
        """
        with self._lock:
            left = 0 if is_final else self._restarts_left + one_more
            self._change(state=RunState.ENDED, exit_code=exit_code, ended_at=_now(), restarts_left=left)

    def _change_worker(self, rank: int, **changes: Any) -> None:
        with self._lock:
            workers = (replace(of, **changes) if of.rank == rank else of for of in self._status.workers)
            self._change(workers=tuple(workers))

    def _change(self, **changes: Any) -> None:
        self._status = replace(self._status, **changes)
        self._write()

    def _write(self) -> None:
        self._written_s = time.monotonic()
        self._status = replace(self._status, updated_at=_now())
        _write(self._path, self._status)


def end_restarts(run_dir: Path, exit_code: int) -> None:
    """Note that a run which may have been restarted is over."""
    with contextlib.suppress(LaunchError):
        status = replace(_read(run_dir), exit_code=exit_code, restarts_left=0)
        _write(run_dir / STATUS_FILE, status)


def _write(path: Path, status: RunStatus) -> None:
    """Write the file as a whole or not at all."""
    text = json.dumps({"schema_version": _SCHEMA_VERSION, **status.to_json()}, indent=2)
    with contextlib.suppress(OSError), whole_file(path) as draft:
        draft.write_text(text + "\n")


def read_status(run_dir: Path) -> RunStatus:
    """Return the state of a run; one whose launcher was killed is ``LOST``, or ``SILENT`` if that can't be seen.

    Raises:
        LaunchError: The directory has no status that this version can read.
    """
    status = _read(run_dir)
    if not status.strategy:
        status = replace(status, strategy=_built_strategy(run_dir))
    return status if status.state is RunState.ENDED and not status.restarts_left else _seen_from_here(status)


def _built_strategy(run_dir: Path) -> str:
    """Return the builder of the strategy that the run has kept, without reading all of it; empty if there is none."""
    with contextlib.suppress(OSError, ValueError), (run_dir / "strategy.json").open(encoding="utf-8") as file:
        found = _BUILDER.search(file.read(_HEAD_CHARACTERS))
        return "" if found is None else str(json.loads(found[1]))
    return ""


def _read(run_dir: Path) -> RunStatus:
    file = run_dir / STATUS_FILE
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        version = data.get("schema_version")
        status = RunStatus.from_json(data, run_dir) if version == _SCHEMA_VERSION else None
    except FileNotFoundError:
        raise LaunchError(f"`{run_dir}` is not the directory of a run: it has no `{STATUS_FILE}`") from None
    except OSError as error:
        raise LaunchError(f"`{file}` can't be read: {error.strerror or error}") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise LaunchError(f"`{file}` is damaged: {error!r}") from error
    if status is None:
        raise LaunchError(f"`{file}` has the schema version {version!r}, this AutoDist reads {_SCHEMA_VERSION}")
    return status


def _seen_from_here(status: RunStatus) -> RunStatus:
    """Correct what a launcher that was killed could not write any more."""
    alive = is_alive(status.launcher)
    if alive is None and (_now() - status.updated_at).total_seconds() > _SILENT_S:
        return replace(status, state=RunState.SILENT)
    if alive is not False:
        is_between = status.state is RunState.ENDED
        return replace(status, state=RunState.RESTARTING, ended_at=None, exit_code=None) if is_between else status
    workers = (replace(of, state=WorkerState.LOST) if of.state is WorkerState.RUNNING else of for of in status.workers)
    return replace(status, state=RunState.LOST, workers=tuple(workers))


def _progressed(worker: WorkerStatus, progress: Mapping[int, Progress]) -> WorkerStatus:
    reported = progress.get(worker.rank)
    if reported is None or reported.steps == worker.steps:
        return worker
    age = timedelta(seconds=time.monotonic() - reported.changed_s)
    return replace(worker, steps=reported.steps, progressed_at=_now() - age)


def _now() -> datetime:
    return datetime.now(timezone.utc)
