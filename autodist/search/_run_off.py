"""The best trials of a search, measured again in turn, until their differences exceed their uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autodist.search._verdict import difference, leader_of
from autodist.search.store import Measurement, Trial

LEAST_ROUNDS = 3
"""About how often trials are measured again if the fastest is decided soon."""
_MOST_ROUNDS = 8
"""How often a trial is measured again at most."""
_NARROW = 0.01
"""Trials count as equal if their difference is known to this fraction and it is still undecided which is faster."""


def run_off(
    finalists: Sequence[Trial],
    measure: Callable[[Trial, int], Trial],
    challengers: Callable[[Sequence[Trial]], Sequence[Trial]] = lambda measured: (),
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Trial]:
    """Measure trials again, round by round, and return them with what was measured.

    The fastest of many trials was also lucky, which a second measurement is not. Every second round is in the opposite
    order. A trial that is surely slower than the fastest one is not measured again. The run-off ends as soon as all
    differences are known.

    Args:
        finalists: The trials that are measured again.
        measure: Measures a trial in a round, counted from 0, and returns the trial with the measurement; unchanged
            if it failed.
        challengers: Takes all trials measured so far, and returns further ones to measure.
        goes_on: Asked before each round whether there is time for it.

    Returns:
        All trials that were measured.
    """
    known = {trial.number: trial for trial in finalists}
    running, taken = list(known), dict.fromkeys(known, 0)
    for number in range(2 * _MOST_ROUNDS):
        if not running or not goes_on():
            break
        for one in running if number % 2 == 0 else reversed(running):
            before, known[one] = known[one], measure(known[one], number)
            taken[one] = taken[one] + 1 if known[one] is not before else _MOST_ROUNDS
        running = _undecided([known[one] for one in running if taken[one] < _MOST_ROUNDS])
        new = [trial for trial in challengers(list(known.values())) if trial.number not in known]
        if new:
            running = running or [leader_of(list(known.values())).number]
            running += [trial.number for trial in new]
            known |= {trial.number: trial for trial in new}
            taken |= dict.fromkeys((trial.number for trial in new), 0)
    return list(known.values())


def _undecided(trials: Sequence[Trial]) -> list[int]:
    """Numbers of the fastest trial and of those that may be as fast; empty if it is alone."""
    if not trials:
        return []
    leader = leader_of(trials)
    found = [trial.number for trial in trials if trial is leader or _may_be_as_fast(trial, leader)]
    return found if len(found) > 1 else []


def _may_be_as_fast(trial: Trial, leader: Trial) -> bool:
    found = difference(trial, leader)
    return found is None or not (found.is_decided or found.high - found.low < 2 * _NARROW)


def with_measurement(trial: Trial, outcome: Measurement, number: int) -> Trial:
    """The trial with the measurement of a round added."""
    return replace(trial, again=(*trial.again, replace(outcome, round=number)))
