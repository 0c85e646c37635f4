"""Ctrl-C and TERM in the workers of a run: what interrupts them does so at the same place of the program on all.

Under plain ``python`` Ctrl-C raises ``KeyboardInterrupt`` wherever the script is. With several workers one would leave
a step for which the others wait, inside TensorFlow, where no exception reaches them. So the launcher tells all of them;
each says how many *meetings* it has begun (steps, agreements: what all do together), and all go on to the one that the
furthest has begun. There the exception is raised.

A worker that gets TERM saves at the next place where a checkpoint may be written, if the script uses checkpoints
and has no handler of its own; else the signal takes its course.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._member import Member
from autodist.errors import AutoDistError, TimedOut, WorkerFailed

SAVES_AT_END = "interruption/saves"
INTERRUPTION_TOLD = "interruption/told"
SCRIPT_ENDED = "interruption/left"
_LISTEN_S = 60.0
_AGAIN_S = 1.0
_AGREE_S = 2.0
_IDLE_S = 0.25  # outside of meetings for this long: the script does something else, and is interrupted there
_LOOK_S = 0.02
_LEAVE_S = 60.0


class _Stage(enum.Enum):
    NOTHING = 0
    TOLD = 1  # by the launcher; where to stop is not known so far
    KNOWN = 2
    TAKEN = 3  # the script has it


class Interruption:
    """This worker's knowledge about a requested end of the run."""

    def __init__(self, worker: Member) -> None:
        self._worker = worker
        self._changed = threading.Condition()
        self._stage = _Stage.NOTHING
        self._signum = signal.SIGINT
        self._begun = 0
        self._depth = 0
        self._target = 0
        self._left_s = 0.0
        self._saves = False

    @property
    def is_taken(self) -> bool:
        """Whether the script was interrupted."""
        return self._stage is _Stage.TAKEN

    # --- the main thread

    @contextlib.contextmanager
    def together(self, *, counts: bool = True) -> Iterator[None]:
        """Mark the body as work that all workers do at the same place of the program.

        Args:
            counts: Whether one that has begun it waits for the others.

        Raises:
            KeyboardInterrupt: The run is to end, and all workers stop here.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with self._changed:  # once it is counted it is no place to be interrupted in, though others wait
            is_to_stop = self._depth == 0 and self._is_to_stop(signal.SIGINT, counts)
            self._depth += 1
        try:
            if is_to_stop:
                signal.raise_signal(signal.SIGINT)  # a handler of the script's own may not raise anything
            yield
        finally:
            self._left_s = time.monotonic()
            self._depth -= 1

    def may_save(self, save: Callable[[], None]) -> None:
        """Come to a place where a checkpoint may be written; if the run is to end by TERM, it is, and the process ends.

        Args:
            save: Writes it; all workers call it.
        """
        if self._is_to_stop(signal.SIGTERM):
            save()
            self._wait_until_saved()
            self.end_by_term()

    def will_save(self) -> None:
        """Have the launcher know that this script saves when it is to end."""
        if self._worker.coordinator is not None and not self._saves:
            self._worker.coordinator.put(f"{SAVES_AT_END}/{self._worker.rank}", b"")
        self._saves = True

    def leave(self) -> None:
        """The script has ended: after an interruption, wait for the others, which may be saving what this one holds.

        Nothing interrupts this process any more.
        """
        with self._changed:
            was_interrupted, self._stage = self.is_taken, _Stage.TAKEN
        coordinator, size = self._worker.coordinator, self._worker.world_size
        if coordinator is None or size == 1:
            return
        with contextlib.suppress(AutoDistError):
            self._say_begun(coordinator, self._begun)
            coordinator.put(f"{SCRIPT_ENDED}/{self._worker.rank}", b"")
            deadline_s = time.monotonic() + _LEAVE_S
            for rank in range(size) if was_interrupted else ():
                coordinator.get(f"{SCRIPT_ENDED}/{rank}", max(deadline_s - time.monotonic(), 0.0))

    def _is_to_stop(self, signum: signal.Signals, counts: bool = True) -> bool:
        """Whether the program stops at this meeting because of a signal; if not, the meeting is counted as begun."""
        with self._changed:
            if self._stage is _Stage.TOLD:
                self._changed.wait_for(lambda: self._stage is not _Stage.TOLD, 2 * _AGREE_S)
            is_here = self._stage is _Stage.KNOWN and self._begun >= self._target
            if is_here and self._signum == signum:
                self._take()
                return True
            self._begun += counts
            return False

    def _take(self) -> None:
        self._stage = _Stage.TAKEN
        if self._worker.coordinator is not None:
            with contextlib.suppress(AutoDistError):
                self._worker.coordinator.put(f"{INTERRUPTION_TOLD}/{self._worker.rank}", b"")

    def _wait_until_saved(self) -> None:
        if self._worker.coordinator is not None and self._worker.world_size > 1:
            with contextlib.suppress(AutoDistError):
                self._worker.coordinator.barrier("interruption/saved", _AGREE_S)

    def end_by_term(self) -> None:
        """End this process by TERM, now that nothing is left to do."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    # --- a thread alongside it

    def listen(self) -> None:
        """Wait until the launcher announces an end, and bring it about; for a thread of its own."""
        signum = self._heard()
        if signum == signal.SIGTERM and not (self._saves and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL):
            os.kill(os.getpid(), signal.SIGTERM)
        elif signum is not None:
            self.tell(signum)
            if signum == signal.SIGINT:
                self._interrupt_when_idle()

    def _heard(self) -> signal.Signals | None:
        coordinator = self._worker.coordinator
        while coordinator is not None:
            try:
                return signal.Signals[coordinator.interruption(_LISTEN_S)]
            except TimedOut:
                continue
            except WorkerFailed:  # the run is over
                break
            except AutoDistError:  # a connection was lost, which may pass
                time.sleep(_AGAIN_S)
        return None

    def tell(self, signum: signal.Signals) -> None:
        """Have the main thread stop where the furthest worker is.

        Args:
            signum: SIGINT is ``KeyboardInterrupt``; at SIGTERM a checkpoint is saved before the end.
        """
        with self._changed:
            if self.is_taken:  # the script has ended, or is ending
                return
            self._stage, self._signum = _Stage.TOLD, signum
            begun = self._begun
        target = self._furthest(begun)
        with self._changed:
            if self.is_taken:  # it has ended meanwhile
                return
            self._stage, self._target = _Stage.KNOWN, target
            self._changed.notify_all()

    def _furthest(self, begun: int) -> int:
        coordinator, size = self._worker.coordinator, self._worker.world_size
        if coordinator is None or size == 1:
            return begun
        try:
            self._say_begun(coordinator, begun)
            return max(int(coordinator.get(f"interruption/begun/{rank}", _AGREE_S)) for rank in range(size))
        except AutoDistError:  # one has ended, or hangs: then everyone stops for itself
            return begun

    def _say_begun(self, coordinator: CoordinatorClient, begun: int) -> None:
        coordinator.put(f"interruption/begun/{self._worker.rank}", str(begun).encode())

    def _interrupt_when_idle(self) -> None:
        """Interrupt the main thread where it does not come to a meeting: it loads data, evaluates, sleeps."""
        self._left_s = max(self._left_s, time.monotonic() - _IDLE_S / 2)
        while not self.is_taken:
            with self._changed:
                is_idle = self._depth == 0 and time.monotonic() - self._left_s > _IDLE_S
                if is_idle and self._begun >= self._target and not self.is_taken:
                    self._take()
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            time.sleep(_LOOK_S)
