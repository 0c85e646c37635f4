"""No step blocks for ever: a worker whose step takes too long says so and ends."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

from autodist.coordination._failure_note import FailureNote
from autodist.coordination._last_words import say_last
from autodist.coordination._waiting_notes import WorkerPosition
from autodist.coordination._worker import Worker
from autodist.errors import TimedOut, WorkerFailed

DEFAULT_STEP_TIMEOUT_S = 600.0
_LOOK_AROUND_AFTER_S = 4.0
_LOOKS = 3  # a note may be a moment old, so one look proves nothing
_IN_ORDER = (
    "all workers must do the same steps in the same order: look for a condition on the rank, on the clock "
    "or on a worker's own data"
)
_FAILED = "let the error of that step end the script, or see its log"


class Watchdog:
    """Watches the steps of a worker of a run.

    TensorFlow's own timeouts can't end a step that waits inside Horovod, and a blocked session does not let Python
    raise; so the process itself is ended, after it has told the launcher and shown its stack. A script that is run
    alone waits for no worker and is not watched.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._timeout_s = worker.environment.step_timeout_s or DEFAULT_STEP_TIMEOUT_S
        self._started: float | None = None
        self._waits = True
        self._thread: threading.Thread | None = None
        self._seen: dict[int, WorkerPosition] = {}
        self._looks = 0

    @contextlib.contextmanager
    def step(self, *, waits: bool = True) -> Iterator[None]:
        """Watch what happens inside.

        Args:
            waits: Whether it needs other workers to take the step as well; else it does not matter where they are.
        """
        if self._worker.coordinator is not None and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="autodist watchdog", daemon=True)
            self._thread.start()
        # In this order: the other thread takes what it finds with a beginning for that of the same step.
        self._waits = waits
        self._started = time.monotonic()
        try:
            yield
        finally:
            self._started = None

    def _watch(self) -> None:
        while True:
            time.sleep(min(1.0, self._timeout_s / 4))
            started = self._started
            if started is None:
                self._looks = 0
                continue
            blocked_s = time.monotonic() - started
            if blocked_s > self._timeout_s:
                self._end_late()
            if blocked_s > _LOOK_AROUND_AFTER_S and self._waits:
                self._look_around(started)

    def _look_around(self, started: float) -> None:
        """End if others keep waiting somewhere else, as they will for ever."""
        elsewhere = self._worker.whereabouts.elsewhere()
        self._looks = self._looks + 1 if elsewhere and elsewhere == self._seen else 0
        self._seen = elsewhere
        # Asking the others has taken its time: the step may have ended, and another one begun.
        if self._looks >= _LOOKS and self._started == started:
            self._end_alone(elsewhere)

    def _end_alone(self, elsewhere: dict[int, WorkerPosition]) -> NoReturn:
        others = "; ".join(f"worker {rank} {place.words}" for rank, place in sorted(elsewhere.items()))
        self._end(
            f"worker {self._worker.rank} is in step {self._worker.steps_taken + 1}, but {others}",
            _FAILED if any(place.is_for_good for place in elsewhere.values()) else _IN_ORDER,
            WorkerFailed.exit_code,
        )

    def _end_late(self) -> NoReturn:
        self._end(
            f"worker {self._worker.rank}: step {self._worker.steps_taken + 1} did not end within "
            f"{self._timeout_s:g} s (AUTODIST_STEP_TIMEOUT_S)",
            "another worker has stopped or takes fewer steps; see its log",
            TimedOut.exit_code,
        )

    def _end(self, message: str, hint: str, exit_code: int) -> NoReturn:
        say_last(f"error: {message}\n\nhint: {hint}\n\n{_stacks()}")
        if self._worker.coordinator is not None:
            self._worker.coordinator.fail(FailureNote(message, exit_code, hint))
        os._exit(exit_code)  # no exception reaches the main thread while it is in TensorFlow or Horovod


def _stacks() -> str:
    """Where each thread is; the handler writes to descriptors only."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")
