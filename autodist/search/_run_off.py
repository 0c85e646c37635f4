"""The best of a search, measured again: in turn, so that luck and a machine that slows down decide less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autodist.search.store import Failure, Measurement, Trial

__all__ = ["ROUNDS", "run_off"]

ROUNDS = 2
"""How often each is measured again."""


def run_off(
    finalists: Sequence[Trial],
    measure: Callable[[Trial], Measurement | Failure],
    goes_on: Callable[[], bool] = lambda: True,
) -> list[Trial]:
    """The same trials with the steps that were measured now, those before left out.

    Who is the fastest of many was lucky as well. Measured again he is as fast as he is.

    Args:
        finalists: What is measured again.
        measure: Measures a trial's strategy.
        goes_on: Asked before each round whether there is time for it; every second one is in the opposite order.

    Returns:
        The trials in their order; one that fails now is as it was.

    """
    found: list[list[Measurement]] = [[] for _ in finalists]
    for number in range(ROUNDS):
        if not goes_on():
            break
        places = range(len(finalists))
        for place in places if number % 2 == 0 else reversed(places):
            outcome = measure(finalists[place])
            if isinstance(outcome, Measurement):
                found[place].append(outcome)
    return [_joined(trial, measured) for trial, measured in zip(finalists, found, strict=True)]


def _joined(trial: Trial, measured: Sequence[Measurement]) -> Trial:
    if not measured:
        return trial
    steps_s = tuple(step_s for one in measured for step_s in one.steps_s)
    return replace(trial, outcome=replace(measured[0], steps_s=steps_s))
