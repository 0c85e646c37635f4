"""What a trial is: one strategy measured, or why it could not be."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from autodist.strategies import Strategy

__all__ = ["Failure", "Measurement", "Reason", "Trial"]

Reason = Literal["memory", "timeout", "crash", "error", "refused"]
"""Out of memory; too slow; a worker ended; an error in a step; a strategy that verification refuses."""


@dataclass(frozen=True)
class Measurement:
    """What a strategy takes.

    Attributes:
        steps_s: Seconds of each measured step on the slowest worker, in their order.
        warm_up: Steps before them that do not count.
        prepared_s: From the strategy to the first step: rewriting, sessions, first values.

    Example:
        >>> Measurement((0.2, 0.1, 0.9)).step_s
        0.2

    """

    steps_s: tuple[float, ...]
    warm_up: int = 0
    prepared_s: float = 0.0

    @property
    def step_s(self) -> float:
        """Seconds of a step: the median, which one slow step of a shared machine does not change."""
        return statistics.median(self.steps_s)


@dataclass(frozen=True)
class Failure:
    """Why there is no measurement.

    Attributes:
        reason: Its kind, by which failures are counted.
        message: What was said, in one line or several.

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
        strategy: What was tried.
        outcome: What it takes, or why that is not known.
        origin: Who proposed it: a searcher, or a builder as baseline.
        predicted: The simulator's score before it was tried; None without one.

    """

    number: int
    strategy: Strategy
    outcome: Measurement | Failure
    origin: str
    predicted: float | None = None

    @property
    def step_s(self) -> float | None:
        """Seconds of a step, None if it failed."""
        return self.outcome.step_s if isinstance(self.outcome, Measurement) else None
