"""Finds the best of several strategies, and how sure that is, by repeated measurements in turn."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from autodist.search._utility import Time, Utility
from autodist.search.space import Rule, obeys
from autodist.search.store import Trial

BASELINE = "baseline"
"""The begin of the origin of trials with strategies that users know."""

_TIME = Time()
_STUDENT = (math.inf, 63.66, 9.92, 5.84, 4.60, 4.03, 3.71, 3.50, 3.36, 3.25, 3.17, 3.11, 3.05, 3.01, 2.98, 2.95)
"""By degrees of freedom, the half width, in standard errors, of an interval around a mean that has the true mean in 99
of 100 cases. It is checked after each of up to eight rounds, so that a decision is wrong in about 4 of 100 cases."""
_SHOWN = 0.005
"""Differences below this fraction are reported as none."""


@dataclass(frozen=True)
class Difference:
    """How much longer one trial's steps take than another's, of rounds in which both were measured.

    Attributes:
        share: The difference as a fraction of the other's time; 0.1 is a tenth longer.
        low: The lower end of the interval that has the true share in at least 95 of 100 cases, although it is looked at
            again after each of up to eight rounds.
        high: The upper end.
        rounds: The number of rounds.
    """

    share: float
    low: float
    high: float
    rounds: int

    @property
    def is_decided(self) -> bool:
        """Whether one of the two is the faster one."""
        return self.low > 0 or self.high < 0


def difference(one: Trial, other: Trial) -> Difference | None:
    """How much longer the steps of one trial take; None without a round in which both were measured.

    A single round does not show how much rounds differ, so it decides nothing.

    Example:
        >>> from autodist.search.store import Measurement
        >>> def trial(*times_s):
        ...     again = tuple(Measurement((step_s,), round=number) for number, step_s in enumerate(times_s, 1))
        ...     return Trial(0, None, Measurement((0.9,)), "random", again=again)
        >>> fast, slow = trial(1.0, 2.0), trial(1.1, 2.2)
        >>> found = difference(slow, fast)
        >>> round(found.share, 3), found.is_decided
        (0.1, True)
    """
    theirs = {measured.round: measured.step_s for measured in other.again}
    logs = [math.log(own.step_s / theirs[own.round]) for own in one.again if own.round in theirs]
    if not logs:
        return None
    mean, freedom = statistics.fmean(logs), len(logs) - 1
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if freedom else math.inf
    around = _STUDENT[min(freedom, len(_STUDENT) - 1)] * error
    return Difference(math.expm1(mean), math.expm1(mean - around), _expm1(mean + around), len(logs))


def _expm1(value: float) -> float:
    return math.expm1(value) if value < 700 else math.inf


@dataclass(frozen=True)
class Verdict:
    """The best trial of a search, and how sure its lead is.

    Attributes:
        best: The best trial.
        is_confirmed: Whether it was measured again, in turn with others. If not, its time is a lucky one.
        rivals: The trials that were measured again in the same rounds, with how much longer each takes; fastest first.
    """

    best: Trial
    is_confirmed: bool
    rivals: tuple[tuple[Trial, Difference], ...] = ()

    @property
    def is_sure(self) -> bool:
        """Whether the best is faster than all that it was compared with, in 95 of 100 cases each."""
        return self.is_confirmed and all(found.low > 0 for _, found in self.rivals)

    @property
    def text(self) -> str:
        """How sure it is, in a sentence."""
        if not self.is_confirmed:
            return "the best was not measured again; the fastest of many was also lucky, so its time is too short"
        known = [rival for rival in self.rivals if rival[0].origin.startswith(BASELINE)]
        if not self.best.origin.startswith(BASELINE) and known:
            return f"the best is {_lead(*known[0])}"
        if undecided := [rival for rival in self.rivals if not rival[1].is_decided]:
            one, found = undecided[0]
            around = _interval(found, _time)
            takes = f"{_name(one)} takes {_time(found.share)} ({around})"
            return f"nothing is surely faster than {_name(self.best)}: {takes}; of equals what users know is taken"
        return f"the best is {_lead(*self.rivals[0])}" if self.rivals else "there was nothing to compare the best with"


def _lead(rival: Trial, found: Difference) -> str:
    return f"{_percent(found.share)} faster than {_name(rival)} ({_interval(found, _percent)})"


def _interval(found: Difference, told: Callable[[float], str]) -> str:
    if found.rounds == 1:
        return "one round, which says little"
    return f"95 of 100 times {told(found.low)} to {told(found.high)}, {found.rounds} rounds"


def _time(share: float) -> str:
    return f"{_percent(-share)} less time" if share < 0 else f"{_percent(share)} more time"


def _name(trial: Trial) -> str:
    is_known = trial.origin.startswith(BASELINE)
    return trial.origin.removeprefix(f"{BASELINE} ") if is_known else f"trial {trial.number}"


def _percent(share: float) -> str:
    return "any" if math.isinf(share) else f"{100 * share:.0f} %" if abs(share) >= _SHOWN else "0 %"


def verdict_of(trials: Sequence[Trial], rules: Sequence[Rule] = (), utility: Utility = _TIME) -> Verdict | None:
    """The best trial: of those that obey the rules, as far as there are any; None if all failed.

    If any trials were measured again, only they can be the best. If measurements do not decide between trials, it is
    one that users know; if there are several, the first.

    Args:
        trials: Trials of one search.
        rules: The choices that are pinned and forbidden.
        utility: The quantity in which the best is the smallest.
    """
    measured = [trial for trial in trials if trial.step_s is not None]
    measured = [trial for trial in measured if obeys(trial.strategy, rules)] or measured
    if not measured:
        return None
    confirmed = _confirmed(measured)
    if not confirmed:
        return Verdict(min(measured, key=lambda t: utility.of(t.strategy, t.step_s or 0.0)), is_confirmed=False)
    leader = leader_of(confirmed)
    known = (one for one in confirmed if one.origin.startswith(BASELINE) and _are_equal(one, leader))
    best = min(known, key=lambda trial: trial.number, default=leader)
    found = ((trial, difference(trial, best)) for trial in confirmed if trial is not best)
    rivals = [(trial, how) for trial, how in found if how is not None]
    return Verdict(best, True, tuple(sorted(rivals, key=lambda rival: rival[1].share)))


def leader_of(trials: Sequence[Trial]) -> Trial:
    """The trial that the fewest others beat, in rounds with both; among several, the first that was measured."""
    return min(trials, key=lambda trial: (sum(map(partial(_is_faster, than=trial), trials)), trial.step_s or 0.0))


def _is_faster(one: Trial, than: Trial) -> bool:
    found = None if one is than else difference(one, than)
    return found is not None and found.share < 0


def _confirmed(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that were measured again in a round together with others."""
    counts = Counter(measured.round for trial in trials for measured in trial.again)
    return [trial for trial in trials if any(counts[one.round] > 1 for one in trial.again)]


def _are_equal(one: Trial, leader: Trial) -> bool:
    found = difference(one, leader)
    return one is leader or (found is not None and not found.is_decided)


def best_of(trials: Sequence[Trial], rules: Sequence[Rule] = (), utility: Utility = _TIME) -> Trial | None:
    """The best trial, see :func:`verdict_of`; None if all failed."""
    verdict = verdict_of(trials, rules, utility)
    return None if verdict is None else verdict.best
