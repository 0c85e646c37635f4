"""A trial's course: how many steps are ordered of workers, and what becomes of their answers."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from autodist.coordination import CoordinatorServer, receive_bytes
from autodist.errors import UsageError
from autodist.runtime.measuring import TrialKeys
from autodist.search import Failure, Measurement, Reason
from autodist.strategies import Strategy
from autodist.timeline import WorkerTimeline

_FIRST_STEPS = 2
_FEWEST_STEPS = 3
_BEYOND, _FAR_BEYOND = 2.0, 4.0  # times hopeless: after warming up, and before
_BLOCK = 10
"""Measured steps between two checks whether a strategy is hopeless."""
_SURE = 3.0
"""How many standard errors the mean of its steps must be beyond what is hopeless."""

Wait: TypeAlias = Callable[[Sequence[str], float], list[dict[str, Any]]]
"""Returns the values of keys as soon as all are there, or one that says why it failed, within some seconds."""


@dataclass(frozen=True)
class TrialSchedule:
    """How a trial goes.

    Attributes:
        warm_up: Steps that don't count.
        iterations: Steps that do.
        timeout_s: Longest time of a trial, from the strategy to its last step.
        enough_s: Seconds of measured steps that are enough, so that of long steps fewer are taken, but three at least.

    Raises:
        UsageError: A time is not above 0, or a number of steps is too small.
    """

    warm_up: int = 10
    iterations: int = 40
    timeout_s: float = 120.0
    enough_s: float = math.inf

    def __post_init__(self) -> None:
        for what, given_s in (("the longest time of a trial", self.timeout_s), ("enough to measure", self.enough_s)):
            if not given_s > 0:  # refuses NaN as well
                raise UsageError(f"{what} is {given_s:g} s, it must be a number above 0")
        if self.warm_up < 0 or self.iterations < 1:
            raise UsageError(
                f"a trial has {self.warm_up} steps to warm up and {self.iterations} to measure, "
                "allowed: 0 or more, and 1 or more"
            )

    def measured_steps(self, step_s: float) -> int:
        """How many steps are measured, if one takes this many seconds.

        Example:
            >>> TrialSchedule(enough_s=10.0).measured_steps(0.5)
            20
        """
        enough = min(self.enough_s / max(step_s, 1e-9), self.iterations)
        return min(self.iterations, max(_FEWEST_STEPS, math.ceil(enough)))


def is_beyond(steps_s: Sequence[float], bound_s: float) -> bool:
    """Whether steps surely take longer than a bound, given how much they vary; False for a single step.

    Example:
        >>> is_beyond([2.0, 2.1, 1.9, 2.0], 1.5), is_beyond([2.0, 1.0, 3.0, 1.8], 1.5)
        (True, False)
    """
    if len(steps_s) < _FEWEST_STEPS:
        return False
    error_s = statistics.stdev(steps_s) / math.sqrt(len(steps_s))
    return statistics.fmean(steps_s) - _SURE * error_s > bound_s


class TrialFailed(Exception):
    """A trial was not completed."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.failure = Failure(reason, message)


class Turns:
    """One trial's orders and answers.

    Attributes:
        is_left_alone: Whether a failure has left the workers as they were.
    """

    def __init__(self, coordinator: CoordinatorServer, wait: Wait, keys: TrialKeys, schedule: TrialSchedule) -> None:
        self._coordinator = coordinator
        self._wait = wait
        self._keys = keys
        self._schedule = schedule
        self._deadline_s = time.monotonic() + schedule.timeout_s
        self._turn = 0
        self.is_left_alone = False

    def measure(self, strategy: Strategy, hopeless_s: float | None) -> Measurement:
        """Order a strategy, and steps of it as long as it may be fast.

        Raises:
            TrialFailed: It came to no end.
        """
        measured = self._measured(strategy.to_json().encode(), hopeless_s)
        self._stop()
        return measured

    def floor(self) -> Measurement:
        """Order the floor: all workers compute at the same time, and none communicates.

        Raises:
            TrialFailed: It came to no end.
        """
        measured = self._measured(TrialKeys.FLOOR, None)
        self._stop()
        return measured

    def trace(self, strategy: Strategy) -> tuple[Measurement, list[WorkerTimeline]]:
        """Measure a strategy, and order one more step that is traced, in the order of the ranks.

        Raises:
            TrialFailed: It came to no end.
        """
        measured = self._measured(strategy.to_json().encode(), None)
        for _ in range(2):  # in the first one TensorFlow prepares what it runs
            self._turn += 1
            self._coordinator.put(self._keys.count(self._turn), TrialKeys.TRACE.encode())
            self._answers()
        keys = [self._keys.answer(self._turn, rank) for rank in range(self._coordinator.world_size)]
        found = [WorkerTimeline.from_json(receive_bytes(self._coordinator, key, 0.0).decode()) for key in keys]
        self._stop()
        return measured, found

    def _measured(self, order: bytes, hopeless_s: float | None) -> Measurement:
        schedule = self._schedule
        self._coordinator.put(self._keys.order, order)
        [prepared_s] = self._answers()
        bound_s = float("inf") if hopeless_s is None else hopeless_s
        first = min(_FIRST_STEPS, schedule.warm_up)
        # A single first step says little: values and connections are made in it.
        far_s = _FAR_BEYOND * bound_s if first == _FIRST_STEPS else float("inf")
        taken, steps_s = 0, []
        for count, longest_s in ((first, far_s), (schedule.warm_up - first, _BEYOND * bound_s)):
            if not count:
                continue
            steps_s = self._take(count)
            taken += count
            if min(steps_s) > longest_s:
                steps_s = steps_s[count // 2 :]
                break
        else:
            wanted = schedule.measured_steps(min(steps_s)) if steps_s else min(_FEWEST_STEPS, schedule.iterations)
            steps_s = self._take(wanted if hopeless_s is None else min(wanted, _BLOCK))
            if not schedule.warm_up:
                wanted = schedule.measured_steps(min(steps_s))
            if (more := wanted - len(steps_s)) > 0 and not is_beyond(steps_s, bound_s):
                steps_s += self._take(more)
            taken += len(steps_s)
        return Measurement(tuple(steps_s), taken - len(steps_s), prepared_s)

    def _take(self, count: int) -> list[float]:
        """The seconds of each of this many steps on the slowest worker."""
        self._turn += 1
        self._coordinator.put(self._keys.count(self._turn), str(count).encode())
        return self._answers()

    def _stop(self) -> None:
        self._coordinator.put(self._keys.count(self._turn + 1), b"")

    def _answers(self) -> list[float]:
        keys = [self._keys.answer(self._turn, rank) for rank in range(self._coordinator.world_size)]
        answers = self._wait(keys, self._deadline_s - time.monotonic())
        for answer in answers:
            if "reason" in answer:
                self._leave_alone_if_possible()
                raise TrialFailed(answer["reason"], answer["message"])
        return [max(times) for times in zip(*(answer["steps_s"] for answer in answers), strict=True)]

    def _leave_alone_if_possible(self) -> None:
        """End the trial but keep the workers, if none waits: graphs were being rewritten, or there is one worker."""
        if self._turn == 0 or self._coordinator.world_size == 1:
            self._stop()
            self.is_left_alone = True
