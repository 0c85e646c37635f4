"""How long a search will still take, from how long its parts have taken."""

from __future__ import annotations

import math
import time
from collections.abc import Callable


class Pace:
    """Estimates what is left of a search, first of trials, then of the best that are measured again.

    Args:
        bound_s: When the search ends at the latest, in seconds from now; None for no bound.
        clock: Seconds.
    """

    def __init__(self, bound_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun_s = self._first_s = self._last_s = clock()
        self._end_s = self._begun_s + (bound_s or math.inf)
        self._ended = 0
        self._again = 0

    def ended(self, more: int, then_s: float) -> float:
        """Note that a trial has ended, and return the seconds that are left.

        Args:
            more: How many trials are still to come.
            then_s: How long what comes after them will take.
        """
        self._last_s = self._clock()
        self._ended += 1
        if self._ended == 1:  # the first trial includes all that is started once
            self._first_s = self._last_s
            each_s = self._last_s - self._begun_s
        else:
            each_s = (self._last_s - self._first_s) / (self._ended - 1)
        return self._bounded(each_s * more + then_s)

    def again(self, more: int) -> float:
        """Note that one of the best was measured again, and return the seconds that are left if more are at most."""
        self._again += 1
        return self._bounded((self._clock() - self._last_s) / self._again * more)

    def _bounded(self, left_s: float) -> float:
        return max(0.0, min(left_s, self._end_s - self._clock()))
