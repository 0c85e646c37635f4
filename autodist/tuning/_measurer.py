"""The real measurer: strategies are measured by the workers of a run, one after another, without restarts."""

from __future__ import annotations

import contextlib
import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from autodist.coordination import CoordinatorServer, FailureNote, RunAborted, receive_bytes
from autodist.errors import SearchFailed, SearchInterrupted
from autodist.graph import StepTrace, TraceSubject, TrainingGraph
from autodist.launch import ClusterLauncher, Job
from autodist.report import RunResult
from autodist.runtime.measuring import ORDERED, ProfileOrder, TrialKeys
from autodist.search import Failure, Measurement
from autodist.strategies import Strategy
from autodist.timeline import StepTimeline
from autodist.tuning._turns import TrialFailed, TrialSchedule, Turns

_T = TypeVar("_T")
_USUAL = TrialSchedule()

_SIGNALLED = 128
_MOMENT_S = 2.0
_AFTER_END_S = 60.0  # from the moment that workers are ended to the launcher's report


class _WorkersEnded(Exception):
    """The workers have ended before they answered."""


@dataclass
class _Gang:
    """The workers from one start to their end."""

    coordinator: CoordinatorServer
    orders: int = 0
    is_spent: bool = False
    """Whether they were ended because of a trial."""
    result: RunResult | None = None

    @property
    def is_at_work(self) -> bool:
        """Whether they take orders: not after one has ended by itself, since the launcher then ends the others."""
        return not self.is_spent and not self.coordinator.is_aborted

    @property
    def is_interrupted(self) -> bool:
        return self.result is not None and _is_interrupted(self.result)


def _is_interrupted(result: RunResult) -> bool:
    return result.failure is None and result.exit_code > _SIGNALLED


def _interrupted(result: RunResult | None) -> SearchInterrupted:
    """The error of an interrupted search; names the signal unless it was Ctrl-C."""
    if result is None or not _is_interrupted(result) or result.exit_code == _SIGNALLED + signal.SIGINT:
        return SearchInterrupted("the search was interrupted")
    by = signal.Signals(result.exit_code - _SIGNALLED).name
    return SearchInterrupted(f"the search was interrupted by {by}", exit_code=result.exit_code)


class LaunchedMeasurer:
    """Measures strategies in workers that a launcher has started, and starts them again after a trial that ended them.

    Only the main thread can take signals, so the launching happens there, in :meth:`serve`, and the search in another
    thread.

    Args:
        launcher: Starts the workers.
        job: What they run: its first training step is measured.
        schedule: How a trial goes.
        restarts: Whether workers that have ended in the middle of an order are started again.

    Attributes:
        starts: How often the workers were started.
        schedule: How the next trial goes.
        subject: What :meth:`profile` runs; None until the step is captured.
        has_own_batches: Whether each worker brings a batch of its own, so that more workers have a larger global batch;
            known when the graph is.
    """

    def __init__(
        self, launcher: ClusterLauncher, job: Job, schedule: TrialSchedule = _USUAL, *, restarts: bool = True
    ) -> None:
        self.starts = 0
        self._restarts = restarts
        self._launcher = replace(launcher, beside=self._beside)
        # While the launcher thinks the workers have nothing to do; each trial has a bound of its own.
        # Nothing that is trained here is worth saving.
        self._job = replace(job, env={**job.env, ORDERED: "1"}, stall_timeout_s=0.0, saving_s=0.0)
        self.schedule = schedule
        self.subject: TraceSubject | None = None
        self.has_own_batches = False
        self._changed = threading.Condition()
        self._gang: _Gang | None = None
        self._is_closed = False
        self._end: RunResult | None = None

    # In the main thread ------------------------------------------------------------------------------------------

    def serve(self) -> RunResult:
        """Start the workers, and again whenever a trial has ended them, until :meth:`close`.

        Returns:
            How the last ones ended.

        Raises:
            LaunchError: They could not be started.
        """
        while True:
            run_dir = None if self._job.run_dir is None else self._job.run_dir / f"workers-{self.starts}"
            self.starts += 1
            try:
                result = self._launcher.launch(replace(self._job, run_dir=run_dir))
            except BaseException:
                self.close()
                raise
            if not self._goes_on(result):
                return result

    def _goes_on(self, result: RunResult) -> bool:
        """Note how workers have ended, and return whether there shall be new ones."""
        with self._changed:
            gang, self._gang = self._gang, None
            if gang is not None:
                gang.result = result
            is_over = gang is None or self._is_closed or gang.is_interrupted or not (gang.orders and self._restarts)
            if is_over:
                self._end = result
            self._changed.notify_all()
        return not is_over

    @contextlib.contextmanager
    def _beside(self, coordinator: CoordinatorServer) -> Iterator[None]:
        with self._changed:
            self._gang = _Gang(coordinator)
            if self._is_closed:  # since the workers before these have ended
                coordinator.put(TrialKeys(0).order, b"")
            self._changed.notify_all()
        yield

    # In the search's thread --------------------------------------------------------------------------------------

    def captured(self) -> tuple[bytes, TrainingGraph]:
        """Wait for the first training step of the script, and return its graph, as a file's content and read.

        Raises:
            SearchFailed: The script has ended without one.
            SearchInterrupted: Somebody has ended it.
        """
        gang = self._workers()
        try:
            [told] = self._wait(gang, [TrialKeys.GRAPH], self._job.start_timeout_s or None)
        except (_WorkersEnded, TrialFailed) as error:
            raise self._without_a_step(gang) from error
        self.subject = TraceSubject.from_dict(told["subject"])
        self.has_own_batches = told["has_own_batches"]
        content = receive_bytes(gang.coordinator, TrialKeys.GRAPH, 0.0)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "graph.zip")
            path.write_bytes(content)
            return content, TrainingGraph.load(path)

    def profile(self, order: ProfileOrder) -> StepTrace | Failure:
        """Have the chief's worker run the step as one replica does, but alone.

        Raises:
            SearchInterrupted: Somebody has ended the workers.
            SearchFailed: They can't be started any more.
        """
        gang = self._workers()
        keys = TrialKeys(gang.orders)
        gang.orders += 1
        try:
            gang.coordinator.put(keys.order, order.encode())
            bound_s = order.longest_s + self.schedule.timeout_s
            [answer] = self._wait(gang, [keys.answer(0, 0)], bound_s, bound_s)
        except TrialFailed as error:
            self._end_workers(gang, f"the profile has failed: {error}")
            return error.failure
        except (_WorkersEnded, RunAborted):
            return self._died(gang)
        if "reason" in answer:
            return Failure(answer["reason"], answer["message"])
        return StepTrace.from_json(receive_bytes(gang.coordinator, keys.answer(0, 0), 0.0).decode())

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement | Failure:
        """Measure a strategy; see :class:`~autodist.search.Measurer`.

        Raises:
            SearchInterrupted: Somebody has ended the workers.
            SearchFailed: They can't be started any more.
        """
        return self._tried(number, lambda trial: trial.measure(strategy, hopeless_s))

    def floor(self) -> Measurement | Failure:
        """Measure what a step takes in which all workers compute and none communicates.

        Raises:
            SearchInterrupted: Somebody has ended the workers.
            SearchFailed: They can't be started any more.
        """
        return self._tried(0, lambda trial: trial.floor())

    def trace(self, strategy: Strategy) -> tuple[Measurement, StepTimeline] | Failure:
        """Measure a strategy, and say what ran when in one more step of it.

        Raises:
            SearchInterrupted: Somebody has ended the workers.
            SearchFailed: They can't be started any more.
        """
        found = self._tried(0, lambda trial: trial.trace(strategy))
        if isinstance(found, Failure):
            return found
        measured, workers = found
        return measured, StepTimeline.of([host.name for host in self._job.spec.hosts], workers)

    def _tried(self, number: int, act: Callable[[Turns], _T]) -> _T | Failure:
        """Order something, and start workers again if it ended them."""
        gang = self._workers()
        trial = self._turns(gang)
        try:
            return act(trial)
        except TrialFailed as error:
            if not trial.is_left_alone and error.failure.reason != "timeout" and self._end_by_themselves(gang):
                return self._died(gang)
            if not trial.is_left_alone:
                self._end_workers(gang, f"trial {number} has failed: {error}")
            return error.failure
        except (_WorkersEnded, RunAborted):
            return self._died(gang)

    def close(self) -> None:
        """Let the workers end; :meth:`serve` returns."""
        with self._changed:
            self._is_closed = True
            gang = self._gang
            self._changed.notify_all()
        if gang is not None and not gang.is_spent:
            with contextlib.suppress(RunAborted):  # they have ended by themselves
                gang.coordinator.put(TrialKeys(gang.orders).order, b"")

    def _workers(self) -> _Gang:
        """Workers that take orders, as soon as they are ready."""
        with self._changed:
            self._changed.wait_for(lambda: self._end or self._is_closed or (self._gang and self._gang.is_at_work))
            if self._gang is not None and self._gang.is_at_work and not self._is_closed:
                return self._gang
            raise self._ended(self._end)

    def _ended(self, result: RunResult | None) -> Exception:
        """Why there are no workers that take orders."""
        if result is not None and result.failure is not None:
            return SearchFailed(f"the workers have failed: {result.failure.message}", result.failure.hint)
        if result is None or _is_interrupted(result) or self.subject is not None:
            return _interrupted(result)
        return SearchFailed(
            f"`{self._job.script}` has ended without a training step in a scope",
            hint="train inside `with autodist.scope():`, by `fit` or a function that takes gradients and applies them",
        )

    def _without_a_step(self, gang: _Gang) -> Exception:
        """Why there is nothing to search for."""
        self._wait_for_end(gang)
        if gang.result is None and not self._is_closed:
            return SearchFailed(
                f"`{self._job.script}` has come to no training step, and its workers could not be ended",
                hint="the machine may have too much to do; the run directory has their output",
            )
        return self._ended(gang.result)

    def _died(self, gang: _Gang) -> Failure:
        """The outcome of a trial whose workers have ended."""
        self._wait_for_end(gang)
        if gang.is_interrupted or gang.result is None:
            raise _interrupted(gang.result)
        failure = gang.result.failure
        if failure is None:
            return Failure("crash", "the workers have ended in the middle of a trial")
        # A SIGKILL in the middle of a trial most likely comes from a kernel that is out of memory.
        return Failure("memory" if failure.signal == "SIGKILL" else "crash", failure.message)

    def _turns(self, gang: _Gang) -> Turns:
        keys = TrialKeys(gang.orders)
        gang.orders += 1
        return Turns(gang.coordinator, partial(self._wait, gang), keys, self.schedule)

    def _end_by_themselves(self, gang: _Gang) -> bool:
        """Whether a worker's end is why another's step has failed: the launcher learns of it a moment later."""
        deadline_s = time.monotonic() + _MOMENT_S
        while not gang.coordinator.is_aborted and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return gang.coordinator.is_aborted

    def _wait_for_end(self, gang: _Gang) -> None:
        with self._changed:
            self._changed.wait_for(lambda: gang.result is not None, _AFTER_END_S + self._job.grace_s)

    def _end_workers(self, gang: _Gang, reason: str) -> None:
        with self._changed:
            gang.is_spent = True
        gang.coordinator.fail(0, FailureNote(reason))

    def _wait(
        self, gang: _Gang, keys: Sequence[str], timeout_s: float | None, bound_s: float | None = None
    ) -> list[dict[str, Any]]:
        """The values of keys as soon as all are there, or one that says why it failed.

        Args:
            gang: The workers that answer.
            keys: What is waited for.
            timeout_s: How long from now.
            bound_s: How long in all, as errors say it; by default what a trial may take.

        Raises:
            TrialFailed: They are not there within the time.
            _WorkersEnded: The workers have ended before.
        """

        def found(values: Mapping[str, bytes]) -> list[dict[str, Any]]:
            return [json.loads(values[key]) for key in keys if key in values]

        def reached(values: Mapping[str, bytes]) -> bool:
            answers = found(values)
            return len(answers) == len(keys) or any("reason" in answer for answer in answers)

        coordinator = gang.coordinator
        if coordinator.wait_until(reached, threading.TIMEOUT_MAX if timeout_s is None else max(timeout_s, 0.0)):
            return found({key: value for key in keys if (value := coordinator.peek(key)) is not None})
        if coordinator.is_aborted:
            raise _WorkersEnded
        raise TrialFailed("timeout", f"it took more than {self.schedule.timeout_s if bound_s is None else bound_s:g} s")
