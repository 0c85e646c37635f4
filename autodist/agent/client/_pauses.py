"""Why this process did not run for a while: it was stopped, as by Ctrl-Z, or others took its processors."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

__all__ = ["Pauses", "reason_of_pause"]


class Pauses:
    """A context that notes, in the main thread, when this process goes on after it was stopped.

    A stopped process goes on by SIGCONT; one that only had to wait for a processor gets none.
    """

    continued_s: float | None = None
    """When the signal came last, by the monotonic clock; 0 before that, None outside of a context."""

    def __enter__(self) -> Pauses:
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            Pauses.continued_s = 0.0
            self._before = signal.signal(signal.SIGCONT, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before is not None:
            Pauses.continued_s = None
            signal.signal(signal.SIGCONT, self._before)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        Pauses.continued_s = time.monotonic()
        if callable(self._before):
            self._before(signum, frame)


def reason_of_pause(since_s: float) -> str:
    """Why this process has not run since then, by the monotonic clock, as far as that is known."""
    if Pauses.continued_s is None:
        return "it was stopped, as by Ctrl-Z, or this machine had no processor for it"
    if Pauses.continued_s >= since_s:
        return "it was stopped, as by Ctrl-Z"
    return "this machine had no processor for it"
