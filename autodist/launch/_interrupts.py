"""Ctrl-C and similar signals, as events instead of exceptions in the middle of something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from autodist.launch._signal_queue import SignalQueue

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """A context in which these signals call back; in a thread other than the main one it does nothing.

    Without a callback, a signal is kept for :meth:`wait`; another one before that raises ``KeyboardInterrupt``. An
    inner context takes over the signal that the outer one still keeps: a signal between two things that are
    interrupted differently is lost to neither of them.

    Args:
        on_interrupt: Called with the signal; must be as careful as a signal handler.

    Example:
        >>> with Interrupts() as interrupts:
        ...     signal.raise_signal(signal.SIGTERM)
        ...     interrupts.wait(1.0)
        <Signals.SIGTERM: 15>
    """

    def __init__(self, on_interrupt: Callable[[signal.Signals], None] | None = None) -> None:
        self._kept: SignalQueue[signal.Signals] = SignalQueue()
        self._on_interrupt = on_interrupt or self._keep
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            for signum in _SIGNALS:
                if signum == signal.SIGHUP and signal.getsignal(signum) == signal.SIG_IGN:
                    continue  # started by nohup
                self._before[signum] = signal.signal(signum, self._handle)
            self._take_over()  # now that none can reach the outer one any more
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)

    def wait(self, timeout_s: float) -> signal.Signals | None:
        """Return the next signal that was kept, None if there is none within the time."""
        return self._kept.get(timeout_s)

    def _keep(self, signum: signal.Signals) -> None:
        if not self._kept.is_empty():
            raise KeyboardInterrupt  # nothing has waited for the first one
        self._kept.put(signum)

    def _take_over(self) -> None:
        outer = getattr(self._before.get(signal.SIGINT), "__self__", None)
        while isinstance(outer, Interrupts) and (signum := outer.wait(0.0)) is not None:
            self._on_interrupt(signum)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        self._on_interrupt(signal.Signals(signum))
