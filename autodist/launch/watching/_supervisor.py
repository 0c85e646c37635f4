"""Watches started workers until all have ended, and makes sure that they do."""

from __future__ import annotations

import math
import signal
import time
from dataclasses import replace

from autodist.agent import reason_of_pause
from autodist.coordination import INTERRUPTION_TOLD, SAVES_AT_END, SCRIPT_ENDED, CoordinatorServer
from autodist.launch._base import Job, RunObserver
from autodist.launch._gang import Event, Exited, ExitStatus, Gang, Interrupted, Lost
from autodist.launch._signal_queue import SignalQueue
from autodist.launch.run_files import RunDirectory, StatusKeeper
from autodist.launch.watching._deadlines import WorkersProgress, find_overdue
from autodist.launch.watching._failures import Symptom, Verdict, root_cause
from autodist.launch.watching._neighbour_watch import Neighbours
from autodist.report import RunState

_TICK_S = 0.2
_SETTLE_S = 0.3  # in which a second symptom may still turn out to be the cause
_OWN_END_S = 1.5  # for a worker that has reported its failure to end by itself, with its own exit code
_STACKS_S = 1.0
_PAUSE_S = 5.0  # longer than any turn of the launcher takes: it did not run meanwhile
_CATCH_UP_S = 10.0  # for what workers have reported meanwhile
_AFTER_GRACE_S = 15.0  # for processes that were sent SIGKILL, and for the way there and back


class Supervisor:
    """One run's workers from their start to their end.

    Args:
        job: Holds the bounds.
        gang: All workers, started.
        events: What happens to them.
        coordinator: Knows their progress.
        neighbours: Know which machines reach each other.
        directory: For the events that are kept.
        observer: For what the user should know.
        status: Gets the state of the workers.
    """

    def __init__(
        self,
        job: Job,
        gang: Gang,
        events: SignalQueue[Event],
        coordinator: CoordinatorServer,
        neighbours: Neighbours,
        directory: RunDirectory,
        observer: RunObserver,
        status: StatusKeeper,
    ) -> None:
        self._job = job
        self._status = status
        self._gang = gang
        self._events = events
        self._coordinator = coordinator
        self._neighbours = neighbours
        self._directory = directory
        self._observer = observer
        self._started_s = {worker.rank: time.monotonic() for worker in gang.workers}
        self._ended_s: dict[int, float] = {}
        self._statuses: dict[int, ExitStatus] = {}
        self._lost: set[int] = set()
        self._symptoms: list[Symptom] = []
        self._interrupts: list[signal.Signals] = []
        self._is_stopping = False
        self._turn_s = time.monotonic()
        self._resumed_s = -math.inf

    def run(self) -> Verdict:
        """Wait for the end or for the first trouble, then end everything that is left."""
        while not (self._symptoms or self._interrupts or self._all_ended()):
            self._take_event(_TICK_S)
            self._notice_pause()
            self._check_deadlines()
        while not (self._symptoms or self._interrupts) and self._take_event(0.0):
            pass  # a signal that was sent before the last worker ended may be noted after that
        if self._interrupts:
            self._stop(now=self._are_asked_first() and not self._end_by_themselves())
            return Verdict(interrupted=self._interrupts[0])
        if not self._symptoms:
            self._stop()
            return Verdict()
        self._settle()
        symptom = root_cause(self._symptoms)
        self._coordinator.abort(f"the run was stopped because of worker {symptom.rank}")
        self._stop()
        return self._verdict(symptom)

    def _verdict(self, symptom: Symptom) -> Verdict:
        cause = self._with_own_status(symptom)
        others = {other.rank for other in self._symptoms} - {symptom.rank}
        said = {other.rank: other.note.message for other in self._symptoms if other.note is not None}
        wanted = None if cause.note is None else cause.note.message
        is_everywhere = wanted is not None and all(said.get(rank) == wanted for rank in others)
        return Verdict(cause, tuple(sorted(others)), is_everywhere)

    def _all_ended(self) -> bool:
        return not self._running()

    def _running(self) -> list[int]:
        """The workers that are there as far as is known."""
        return [rank for rank in self._started_s if rank not in self._statuses and rank not in self._lost]

    def _take_event(self, timeout_s: float) -> bool:
        """Note the next event; False if there was none within the time."""
        self._status.progressed(self._coordinator.progress())
        event = self._events.get(timeout_s)
        if event is None:
            return False
        if isinstance(event, Interrupted):
            self._interrupts.append(event.signum)
            self._directory.event("interrupted", signal=event.signum.name)
        elif isinstance(event, Exited):
            self._note_exit(event)
        elif isinstance(event, Lost):
            self._note_loss(event)
        else:
            self._symptoms.append(Symptom(event.rank, note=event.note))
            self._directory.event("reported-failure", rank=event.rank, message=event.note.message)
        return True

    def _note_exit(self, event: Exited) -> None:
        self._statuses[event.rank] = event.status
        self._directory.event("exited", rank=event.rank, exit_code=event.status.exit_code, signal=event.status.signal)
        self._status.worker_ended(event.rank, event.status.exit_code, event.status.signal)
        if event.status.is_success:
            self._ended_s[event.rank] = time.monotonic()
        else:
            self._symptoms.append(Symptom(event.rank, event.status))

    def _note_loss(self, event: Lost) -> None:
        self._lost.update(event.ranks)
        self._directory.event("lost", ranks=event.ranks, reason=event.reason)
        self._status.workers_lost(event.ranks)
        unfinished = [rank for rank in event.ranks if rank not in self._ended_s]
        if unfinished:
            self._symptoms.append(Symptom(unfinished[0], self._statuses.get(unfinished[0]), lost=event.reason))

    def _notice_pause(self) -> None:
        """See whether this process did not run for a while: then no worker is to blame for the silence meanwhile."""
        now_s = time.monotonic()
        paused_s, before_s, self._turn_s = now_s - self._turn_s, self._turn_s, now_s
        if paused_s >= _PAUSE_S:
            self._resumed_s = now_s
            self._directory.event("paused", seconds=round(paused_s, 1))
            self._observer.notice(f"the launcher did not run for {paused_s:.0f} s: {reason_of_pause(before_s)}")

    def _check_deadlines(self) -> None:
        if self._symptoms or self._interrupts or time.monotonic() - self._resumed_s < _CATCH_UP_S:
            return
        standing, now_s = (
            WorkersProgress(self._started_s, self._ended_s, self._coordinator.progress()),
            time.monotonic(),
        )
        self._neighbours.watch(standing, now_s)
        overdue = self._neighbours.find_cut(standing, now_s) or find_overdue(self._job, standing, now_s)
        if overdue is not None:
            self._directory.event(overdue.kind.value, rank=overdue.rank, message=overdue.message)
            if not overdue.cut:
                self._dump_stacks()
            self._symptoms.append(Symptom(overdue.rank, overdue=overdue))
        elif (strange := self._neighbours.never_reached(now_s)) is not None:
            self._directory.event("never-reached", message=strange.message)
            self._observer.notice(f"{strange.message} so far; if training needs that, it will not begin")

    def _dump_stacks(self) -> None:
        """Have every running worker write its Python stack into its log."""
        for rank in self._running():
            self._gang.signal(rank, signal.SIGUSR1)
        time.sleep(_STACKS_S)

    def _settle(self) -> None:
        """Gather what else goes wrong at the same moment, and let the first to report end by itself.

        When a machine dies, its neighbours see that before the launcher does; so all machines are asked.
        """
        if self._symptoms[0].overdue is not None:
            return
        self._gang.check_machines()
        began = time.monotonic()
        while not self._interrupts:
            waited_s = time.monotonic() - began
            is_over = self._all_ended() or waited_s >= (_SETTLE_S if self._is_cause_gone() else _OWN_END_S)
            if is_over and self._gang.is_checked:
                return
            self._take_event(0.05)

    def _is_cause_gone(self) -> bool:
        rank = root_cause(self._symptoms).rank
        return rank in self._statuses or rank in self._lost

    def _with_own_status(self, symptom: Symptom) -> Symptom:
        """Join what a worker said with how it ended, unless the launcher's own signal ended it."""
        status = self._statuses.get(symptom.rank)
        said = next((other for other in self._symptoms if other.rank == symptom.rank and other.note), symptom)
        ended_itself = status is not None and (status.signal is None or symptom.status is not None)
        return replace(
            symptom,
            status=status if ended_itself and symptom.overdue is None else symptom.status,
            note=said.note,
        )

    def _end_by_themselves(self) -> bool:
        """Have the workers end after Ctrl-C, or save what they would; False if they don't in time, or at a further one.

        Ctrl-C is ``KeyboardInterrupt`` in their scripts, which may save then, and longer than for the grace time. TERM
        and HUP are announced beforehand to scripts with checkpoints; for others they are what ends them.
        """
        is_ctrl_c = self._interrupts[0] == signal.SIGINT
        saving_s = max(self._job.grace_s, self._job.saving_s)
        if is_ctrl_c and self._job.saving_s:
            self._say_stopping(f": their scripts may save for up to {saving_s:g} s; press again to kill")
        else:
            self._say_stopping(self._grace())
        self._gang.release()
        self._coordinator.interrupt("SIGINT" if is_ctrl_c else "SIGTERM")
        began_s = time.monotonic()
        while not self._all_ended():
            allowed_s = saving_s if is_ctrl_c and self._are_interrupted() else self._job.grace_s
            if len(self._interrupts) > 1 or time.monotonic() - began_s > allowed_s:
                return False
            self._take_event(0.05)
        return True

    def _are_asked_first(self) -> bool:
        """Whether workers learn of a signal before it ends them; after TERM and HUP only those that save then."""
        running = self._running()
        is_ctrl_c = self._interrupts[0] == signal.SIGINT
        return bool(running) and (is_ctrl_c or any(self._has_said(SAVES_AT_END, rank) for rank in running))

    def _are_interrupted(self) -> bool:
        """Whether the scripts have got their ``KeyboardInterrupt``: what they do now they do because of it."""
        waiting = [rank for rank in self._running() if not self._has_said(SCRIPT_ENDED, rank)]
        return all(self._has_said(INTERRUPTION_TOLD, rank) for rank in waiting or self._running())

    def _has_said(self, what: str, rank: int) -> bool:
        return self._coordinator.peek(f"{what}/{rank}") is not None

    def _grace(self) -> str:
        again = "; press again to kill" if self._interrupts else ""
        return f" (grace {self._job.grace_s:g} s{again})"

    def _say_stopping(self, how: str) -> None:
        running = len(self._running())
        if not running or self._is_stopping:
            return
        self._is_stopping = True
        self._status.enter(RunState.STOPPING)
        noun = "worker" if running == 1 else "workers"
        self._observer.notice(f"stopping {running} {noun}{how}")

    def _stop(self, now: bool = False) -> None:
        """End everything that is left, within the grace time or at a further Ctrl-C; at once if ``now``."""
        self._say_stopping(self._grace())
        self._gang.stop(now=now)
        if not self._wait_until_gone(self._job.grace_s + _AFTER_GRACE_S, interruptible=True):
            self._gang.stop(now=True)
            self._wait_until_gone(_AFTER_GRACE_S, interruptible=False)
        if self._gang.num_left:
            self._observer.notice("some processes can't be ended: they hang in the kernel")

    def _wait_until_gone(self, timeout_s: float, interruptible: bool) -> bool:
        """Whether nothing is left within the time; a further interruption ends the wait."""
        known = len(self._interrupts)
        deadline_s = time.monotonic() + timeout_s
        while not self._gang.is_gone:
            if time.monotonic() > deadline_s or (interruptible and len(self._interrupts) > known):
                return False
            self._take_event(0.05)
        while self._take_event(0.0):
            pass
        return True
