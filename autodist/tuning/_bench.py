"""The real bench: strategies are measured by the workers of a run, one after another, without starting them anew."""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autodist.errors import SearchFailed, SearchInterrupted, UsageError
from autodist.graph import TrainingGraph
from autodist.launch import ClusterLauncher, Job
from autodist.report import RunResult
from autodist.runtime import ORDERED, CoordinatorServer, TrialKeys, receive_bytes
from autodist.search import Failure, Measurement, Reason
from autodist.strategies import Strategy

__all__ = ["Course", "LaunchedBench"]

_FIRST_STEPS = 2
_FAR_BEYOND = 2.0  # times hopeless: not even warmed up
_SIGNALLED = 128
_MOMENT_S = 2.0
_AFTER_END_S = 60.0  # from the moment that workers are ended to the launcher's report


@dataclass(frozen=True)
class Course:
    """How a trial goes.

    Attributes:
        warm_up: Steps that don't count.
        iterations: Steps that do.
        timeout_s: Longest time of a trial, from the strategy to its last step.

    Raises:
        UsageError: The time is not above 0, or a number of steps is too small.

    """

    warm_up: int = 10
    iterations: int = 40
    timeout_s: float = 120.0

    def __post_init__(self) -> None:
        if not self.timeout_s > 0:  # not-a-number is neither
            raise UsageError(f"the longest time of a trial is {self.timeout_s:g} s, it must be a number above 0")
        if self.warm_up < 0 or self.iterations < 1:
            raise UsageError(
                f"a trial has {self.warm_up} steps to warm up and {self.iterations} to measure, "
                "allowed: 0 or more, and 1 or more"
            )


class _TrialFailed(Exception):
    """A trial came to no end."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(reason, message)


class _WorkersEnded(Exception):
    """Before they answered."""


@dataclass
class _Gang:
    """The workers from one start to their end."""

    coordinator: CoordinatorServer
    orders: int = 0
    is_spent: bool = False
    """Whether they were ended because of a trial."""
    result: RunResult | None = None

    @property
    def is_interrupted(self) -> bool:
        return self.result is not None and self.result.failure is None and self.result.exit_code > _SIGNALLED


class LaunchedBench:
    """Measures strategies in workers that a launcher has started, and starts them anew after a trial that ended them.

    Only the main thread can take signals, so the launching happens there, in :meth:`serve`, and the search in another
    thread.

    Args:
        launcher: Starts the workers.
        job: What they run: its first training step is measured.
        course: How a trial goes.

    Attributes:
        starts: How often the workers were started.
        course: How the next trial goes.

    """

    def __init__(self, launcher: ClusterLauncher, job: Job, course: Course = Course()) -> None:
        self.starts = 0
        self._launcher = replace(launcher, beside=self._beside)
        # While the launcher thinks the workers have nothing to do; each trial has a bound of its own.
        self._job = replace(job, env={**job.env, ORDERED: "1"}, stall_timeout_s=0.0)
        self.course = course
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
            is_over = gang is None or self._is_closed or gang.is_interrupted or not gang.orders
            if is_over:
                self._end = result
            self._changed.notify_all()
        return not is_over

    @contextlib.contextmanager
    def _beside(self, coordinator: CoordinatorServer) -> Iterator[None]:
        with self._changed:
            self._gang = _Gang(coordinator)
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
            self._wait(gang, [TrialKeys.GRAPH], self._job.start_timeout_s or None)
        except (_WorkersEnded, _TrialFailed) as error:
            raise self._without_a_step(gang) from error
        content = receive_bytes(gang.coordinator, TrialKeys.GRAPH, 0.0)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory, "graph.zip")
            path.write_bytes(content)
            return content, TrainingGraph.load(path)

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement | Failure:
        """Measure a strategy; see :class:`~autodist.search.Bench`.

        Raises:
            SearchInterrupted: Somebody has ended the workers.
            SearchFailed: They can't be started any more.

        """
        gang = self._workers()
        keys = TrialKeys(gang.orders)
        gang.orders += 1
        trial = _Turns(self, gang, keys, time.monotonic() + self.course.timeout_s)
        try:
            return trial.measure(strategy, self.course, hopeless_s)
        except _TrialFailed as error:
            if not trial.is_left_alone and error.failure.reason != "timeout" and self._end_by_themselves(gang):
                return self._died(gang)
            if not trial.is_left_alone:
                self._end_workers(gang, f"trial {number} has failed: {error}")
            return error.failure
        except _WorkersEnded:
            return self._died(gang)

    def close(self) -> None:
        """Let the workers end; :meth:`serve` returns."""
        with self._changed:
            self._is_closed = True
            gang = self._gang
            self._changed.notify_all()
        if gang is not None and not gang.is_spent:
            with contextlib.suppress(Exception):  # they have ended by themselves
                gang.coordinator.put(TrialKeys(gang.orders).order, b"")

    def _workers(self) -> _Gang:
        """Workers that take orders, as soon as there are some."""
        with self._changed:
            self._changed.wait_for(lambda: self._end or self._is_closed or (self._gang and not self._gang.is_spent))
            if self._gang is not None and not self._gang.is_spent and not self._is_closed:
                return self._gang
            raise self._ended(self._end)

    def _ended(self, result: RunResult | None) -> Exception:
        if result is not None and result.failure is not None:
            return SearchFailed(f"the workers have failed: {result.failure.message}", result.failure.hint)
        return SearchInterrupted("the search was interrupted")

    def _without_a_step(self, gang: _Gang) -> Exception:
        """Why there is nothing to search for."""
        self._wait_for_end(gang)
        if gang.result is None or gang.result.failure is not None or gang.is_interrupted:
            return self._ended(gang.result)
        return SearchFailed(
            f"`{self._job.script}` has ended without a training step in a scope",
            hint="train inside `with autodist.scope():`, by `fit` or a function that takes gradients and applies them",
        )

    def _died(self, gang: _Gang) -> Failure:
        """What a trial came to whose workers have ended."""
        self._wait_for_end(gang)
        if gang.is_interrupted or gang.result is None:
            raise SearchInterrupted("the search was interrupted")
        failure = gang.result.failure
        if failure is None:
            return Failure("crash", "the workers have ended in the middle of a trial")
        # Of those who send SIGKILL in the middle of a trial, the kernel that is out of memory is the likeliest.
        return Failure("memory" if failure.signal == "SIGKILL" else "crash", failure.message)

    def _end_by_themselves(self, gang: _Gang) -> bool:
        """Whether a worker's end is why another's step has failed: the launcher hears of it a moment later."""
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
        gang.coordinator.fail(0, reason)

    def _wait(self, gang: _Gang, keys: Sequence[str], timeout_s: float | None) -> list[dict[str, Any]]:
        """The values of keys as soon as all are there, or one that says why it failed.

        Raises:
            _TrialFailed: They are not there within the time.
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
        raise _TrialFailed("timeout", f"it took more than {self.course.timeout_s:g} s")


class _Turns:
    """One trial's orders and answers."""

    def __init__(self, bench: LaunchedBench, gang: _Gang, keys: TrialKeys, deadline_s: float) -> None:
        self._bench = bench
        self._gang = gang
        self._keys = keys
        self._deadline_s = deadline_s
        self._world_size = gang.coordinator.world_size
        self._turn = 0
        self.is_left_alone = False
        """Whether a failure has left the workers as they were."""

    def measure(self, strategy: Strategy, course: Course, hopeless_s: float | None) -> Measurement:
        """Order a strategy, and steps of it as long as there is hope."""
        self._gang.coordinator.put(self._keys.order, strategy.to_json().encode())
        [prepared_s] = self._answers()
        bound_s = float("inf") if hopeless_s is None else hopeless_s
        first = min(_FIRST_STEPS, course.warm_up)
        turns = ((first, _FAR_BEYOND * bound_s), (course.warm_up - first, bound_s), (course.iterations, float("inf")))
        taken, steps_s = 0, []
        for count, longest_s in turns:
            steps_s = self._take(count)
            taken += count
            if steps_s and min(steps_s) > longest_s:
                steps_s = steps_s[count // 2 :]
                break
        self._stop()
        return Measurement(tuple(steps_s), taken - len(steps_s), prepared_s)

    def _take(self, count: int) -> list[float]:
        """The seconds of each of so many steps on the slowest worker."""
        if count <= 0:
            return []
        self._turn += 1
        self._gang.coordinator.put(self._keys.count(self._turn), str(count).encode())
        return self._answers()

    def _stop(self) -> None:
        self._gang.coordinator.put(self._keys.count(self._turn + 1), b"0")

    def _answers(self) -> list[float]:
        keys = [self._keys.answer(self._turn, rank) for rank in range(self._world_size)]
        answers = self._bench._wait(self._gang, keys, self._deadline_s - time.monotonic())
        for answer in answers:
            if "reason" in answer:
                self._leave_alone_if_possible()
                raise _TrialFailed(answer["reason"], answer["message"])
        return [max(times) for times in zip(*(answer["steps_s"] for answer in answers), strict=True)]

    def _leave_alone_if_possible(self) -> None:
        """After a failure that no other worker waits in: nobody was in a step, or there is nobody else."""
        if self._turn == 0 or self._world_size == 1:
            self._stop()
            self.is_left_alone = True
