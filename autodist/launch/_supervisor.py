"""Watches started workers until all have ended, and sees to it that they do."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autodist.launch._base import Job, RunObserver
from autodist.launch._deadlines import Standing, find_overdue
from autodist.launch._failures import Symptom, root_cause
from autodist.launch._processes import ExitStatus, WorkerProcess, is_anything_left
from autodist.launch._run_directory import RunDirectory
from autodist.launch._status import StatusKeeper
from autodist.report import RunState
from autodist.runtime import CoordinatorServer

__all__ = ["Event", "Exited", "Interrupted", "Reported", "Supervisor", "Verdict"]

_TICK_S = 0.2
_SETTLE_S = 0.3  # in which a second symptom may still turn out to be the cause
_OWN_END_S = 1.5  # for a worker that has reported its failure to end by itself, with its own exit code
_STACKS_S = 1.0
_AFTER_KILL_S = 10.0


@dataclass(frozen=True)
class Exited:
    """A worker's process has ended."""

    rank: int
    status: ExitStatus


@dataclass(frozen=True)
class Reported:
    """A worker has said that it failed."""

    rank: int
    message: str
    exit_code: int


@dataclass(frozen=True)
class Interrupted:
    """Somebody wants the run to end."""

    signum: signal.Signals


Event = Exited | Reported | Interrupted


@dataclass(frozen=True)
class Verdict:
    """How a run ended; both are None after success.

    Attributes:
        symptom: The cause of the failure.
        interrupted: The signal that ended the run.

    """

    symptom: Symptom | None = None
    interrupted: signal.Signals | None = None


class Supervisor:
    """One run's workers from their start to their end.

    Args:
        job: Holds the bounds.
        workers: All workers, started, by rank.
        events: What happens to them; a ``SimpleQueue``, as a signal handler may put into no other.
        coordinator: Knows their progress.
        directory: For the events that are kept.
        observer: For what the user should know.
        status: Told where the workers stand.

    """

    def __init__(
        self,
        job: Job,
        workers: Sequence[WorkerProcess],
        events: queue.SimpleQueue[Event],
        coordinator: CoordinatorServer,
        directory: RunDirectory,
        observer: RunObserver,
        status: StatusKeeper,
    ) -> None:
        self._job = job
        self._status = status
        self._workers = {worker.rank: worker for worker in workers}
        self._events = events
        self._coordinator = coordinator
        self._directory = directory
        self._observer = observer
        self._started_s = dict.fromkeys(self._workers, time.monotonic())
        self._ended_s: dict[int, float] = {}
        self.statuses: dict[int, ExitStatus] = {}
        self._symptoms: list[Symptom] = []
        self._interrupts: list[signal.Signals] = []

    def run(self) -> Verdict:
        """Wait for the end or for the first trouble, then end everything that is left."""
        while not (self._symptoms or self._interrupts or self._all_ended()):
            self._take_event(_TICK_S)
            self._check_deadlines()
        if self._interrupts:
            self._stop()
            return Verdict(interrupted=self._interrupts[0])
        if not self._symptoms:
            self._stop()
            return Verdict()
        self._settle()
        symptom = root_cause(self._symptoms)
        self._coordinator.abort(f"the run was stopped because of worker {symptom.rank}")
        self._stop()
        return Verdict(symptom=self._with_own_status(symptom))

    def kill(self) -> None:
        """End everything now."""
        self._signal_all(signal.SIGKILL)

    def _all_ended(self) -> bool:
        return len(self.statuses) == len(self._workers)

    def _take_event(self, timeout_s: float) -> bool:
        """Note the next event; False if there was none within the time."""
        self._status.progressed(self._coordinator.progress())
        try:
            event = self._events.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return False
        if isinstance(event, Interrupted):
            self._interrupts.append(event.signum)
            self._directory.event("interrupted", signal=event.signum.name)
        elif isinstance(event, Exited):
            self._note_exit(event)
        else:
            self._symptoms.append(Symptom(event.rank, message=event.message, exit_code=event.exit_code))
            self._directory.event("reported-failure", rank=event.rank, message=event.message)
        return True

    def _note_exit(self, event: Exited) -> None:
        self.statuses[event.rank] = event.status
        self._directory.event("exited", rank=event.rank, exit_code=event.status.exit_code, signal=event.status.signal)
        self._status.worker_ended(event.rank, event.status.exit_code, event.status.signal)
        if event.status.is_success:
            self._ended_s[event.rank] = time.monotonic()
        else:
            self._symptoms.append(Symptom(event.rank, event.status))

    def _check_deadlines(self) -> None:
        if self._symptoms or self._interrupts:
            return
        standing = Standing(self._started_s, self._ended_s, self._coordinator.progress())
        overdue = find_overdue(self._job, standing, time.monotonic())
        if overdue is not None:
            self._directory.event(overdue.kind.value, rank=overdue.rank, message=overdue.message)
            self._dump_stacks()
            self._symptoms.append(Symptom(overdue.rank, overdue=overdue))

    def _dump_stacks(self) -> None:
        """Have every running worker write its Python stack into its log."""
        for rank, worker in self._workers.items():
            if rank not in self.statuses:
                worker.signal_leader(signal.SIGUSR1)
        time.sleep(_STACKS_S)

    def _settle(self) -> None:
        """Gather what else goes wrong at the same moment, and let the first to report end by itself."""
        if self._symptoms[0].overdue is not None:
            return
        began = time.monotonic()
        while not self._interrupts and not self._all_ended():
            waited_s = time.monotonic() - began
            is_gone = root_cause(self._symptoms).rank in self.statuses
            if waited_s >= (_SETTLE_S if is_gone else _OWN_END_S):
                return
            self._take_event(0.05)

    def _with_own_status(self, symptom: Symptom) -> Symptom:
        """Join what a worker said with how it ended, unless the launcher's own signal ended it."""
        status = self.statuses.get(symptom.rank)
        said = next((other for other in self._symptoms if other.rank == symptom.rank and other.message), symptom)
        ended_itself = status is not None and (status.signal is None or symptom.status is not None)
        return replace(
            symptom,
            status=status if ended_itself and symptom.overdue is None else symptom.status,
            message=said.message,
            exit_code=said.exit_code,
        )

    def _stop(self) -> None:
        """TERM to everything that is left, KILL to what is left after the grace time or at a further Ctrl-C."""
        running = len(self._workers) - len(self.statuses)
        if running:
            self._status.enter(RunState.STOPPING)
            noun = "worker" if running == 1 else "workers"
            again = "; press again to kill" if self._interrupts else ""
            self._observer.notice(f"stopping {running} {noun} (grace {self._job.grace_s:g} s{again})")
        self._signal_all(signal.SIGTERM)
        if not self._wait_until_gone(self._job.grace_s, interruptible=True):
            self.kill()
            if not self._wait_until_gone(_AFTER_KILL_S, interruptible=False):
                self._observer.notice("some processes can't be ended: they hang in the kernel")

    def _signal_all(self, signum: signal.Signals) -> None:
        for worker in self._workers.values():
            worker.signal_session(signum)

    def _wait_until_gone(self, timeout_s: float, interruptible: bool) -> bool:
        """Whether nothing is left within the time; a further interruption ends the wait."""
        known = len(self._interrupts)
        deadline_s = time.monotonic() + timeout_s
        while not self._all_ended() or is_anything_left(self._workers.values()):
            if time.monotonic() > deadline_s or (interruptible and len(self._interrupts) > known):
                return False
            self._take_event(0.05)
        return True
