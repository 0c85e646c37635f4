"""Trials: each is a strategy with its measurements, or with the reason why it could not be measured."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from autodist.installation import version
from autodist.strategies import Strategy

Reason = Literal["memory", "timeout", "crash", "error", "refused"]
"""Why a trial failed: out of memory; too slow; a worker ended; an error in a step; refused by verification."""


@dataclass(frozen=True)
class Measurement:
    """The time that a strategy takes.

    Attributes:
        steps_s: Seconds of each measured step on the slowest worker, in their order.
        warm_up: Number of steps before them that do not count.
        prepared_s: Seconds from the strategy to the first step: rewriting, sessions, first values.
        round: 0 for the first of a trial; later ones of the same round were taken in turn.
        version: Version of AutoDist that measured it; empty if that is not known.
        ended_s: The end of the measurement, in seconds since 1970; 0 if that is not known.

    Example:
        >>> Measurement((0.2, 0.1, 0.9)).step_s
        0.2
    """

    steps_s: tuple[float, ...]
    warm_up: int = 0
    prepared_s: float = 0.0
    round: int = 0
    version: str = field(default_factory=version)
    ended_s: float = field(default_factory=time.time, compare=False, repr=False)

    @property
    def step_s(self) -> float:
        """Seconds of a step: the median, which one slow step of a shared machine does not change."""
        return statistics.median(self.steps_s)


def mean_s(measurements: Sequence[Measurement]) -> float | None:
    """Seconds of a step: the geometric mean over measurements; None without any."""
    times = [one.step_s for one in measurements]
    if len(times) > 1 and min(times) > 0:
        return math.exp(statistics.fmean(map(math.log, times)))
    return statistics.fmean(times) if times else None


@dataclass(frozen=True)
class Failure:
    """Why there is no measurement.

    Attributes:
        reason: Its kind, by which failures are counted.
        message: The error message, in one line or several.
    """

    reason: Reason
    message: str

    @property
    def headline(self) -> str:
        """Its first line."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True)
class Trial:
    """One strategy that was tried.

    Attributes:
        number: Counted from 0 within a search.
        strategy: The strategy that was tried.
        outcome: Its first measurement, or its failure.
        origin: The searcher that proposed it, or a builder as baseline.
        predicted: The simulator's score before it was tried; None without one.
        again: Its later measurements, by round.
    """

    number: int
    strategy: Strategy
    outcome: Measurement | Failure
    origin: str
    predicted: float | None = None
    again: tuple[Measurement, ...] = ()

    @property
    def counted(self) -> tuple[Measurement, ...]:
        """The measurements that count: those after the first one, as far as there are any.

        A trial that is chosen from many by its first measurement was also lucky; later measurements are not.
        """
        return self.again or ((self.outcome,) if isinstance(self.outcome, Measurement) else ())

    @property
    def steps_s(self) -> tuple[float, ...]:
        """Seconds of each step that counts; none if it failed."""
        return tuple(step_s for one in self.counted for step_s in one.steps_s)

    @property
    def step_s(self) -> float | None:
        """Seconds of a step, the geometric mean over the measurements that count; None if it failed."""
        return mean_s(self.counted)

    @property
    def value(self) -> float | None:
        """The same as :attr:`step_s`, by the name that Optuna has for it."""
        return self.step_s

    @property
    def state(self) -> str:
        """``"COMPLETE"``, or ``"FAIL"`` for a trial without a measurement."""
        return "FAIL" if self.step_s is None else "COMPLETE"

    @property
    def params(self) -> dict[str, str]:
        """By variable, how it is synchronized, such as ``PS`` or ``AllReduce``."""
        return {config.variable: config.kinds for config in self.strategy.variables}
