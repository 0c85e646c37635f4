"""The rows of a trial store, as studies and trials."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from autodist.search.space import Rule
from autodist.search.store._trials import Failure, Measurement, Trial, mean_s
from autodist.simulator import Profile
from autodist.strategies import Strategy

FLOOR = -1
"""The trial number of measurements without a strategy: steps in which all workers compute and none communicates."""
Row: TypeAlias = "tuple[object, ...]"
MeasurementRow: TypeAlias = "tuple[int, str, int | None, float | None, float, str]"
"""Round, steps, steps to warm up, seconds of preparation, when it ended, AutoDist's version."""


def trial_row(trial: Trial) -> Row:
    """A trial's number, strategy, origin and score, and its first measurement or the reason for its failure."""
    outcome = trial.outcome
    about = (trial.number, trial.strategy.to_json(), trial.origin, trial.predicted)
    if isinstance(outcome, Measurement):
        return (*about, json.dumps(outcome.steps_s), outcome.warm_up, outcome.prepared_s, None, None)
    return (*about, None, None, None, outcome.reason, outcome.message)


def measurement_rows(number: int, *measurements: Measurement | Failure) -> Iterator[Row]:
    """For each measurement of a trial: the trial's number, and what :data:`MeasurementRow` says."""
    for one in measurements:
        if isinstance(one, Measurement):
            taken = json.dumps(one.steps_s), one.warm_up, one.prepared_s
            yield (number, one.round, *taken, one.ended_s, one.version)


def measurements_of(rows: Iterable[MeasurementRow]) -> tuple[Measurement, ...]:
    """The measurements of one trial, in the order of their rounds."""
    return tuple(
        Measurement(tuple(json.loads(steps)), warm_up or 0, prepared or 0.0, number, version, ended)
        for number, steps, warm_up, prepared, ended, version in sorted(rows)
    )


def trial_of(
    measured: Sequence[Measurement],
    number: int,
    strategy: str,
    origin: str,
    predicted: float | None,
    steps: str | None,
    warm_up: int,
    prepared: float,
    reason: str | None,
    message: str,
) -> Trial:
    """The trial of a row and of its measurements; an older version has written only the first of these."""
    first, again = _first_and_others(measured, steps, warm_up, prepared)
    outcome = Failure(reason, message) if first is None else first  # type: ignore[arg-type]
    return Trial(number, Strategy.from_json(strategy), outcome, origin, predicted, again)


def counted_of(measured: Sequence[Measurement], steps: str) -> tuple[float, bool, str]:
    """For a measured trial the seconds of a step, whether it was measured again, and by which version."""
    first, again = _first_and_others(measured, steps)
    assert first is not None, "it was measured"
    counted = again or (first,)
    return mean_s(counted) or 0.0, bool(again), counted[-1].version


def _first_and_others(
    measured: Sequence[Measurement], steps: str | None, warm_up: int | None = 0, prepared: float | None = 0.0
) -> tuple[Measurement | None, tuple[Measurement, ...]]:
    """A trial's first measurement and the others; where an older version has written only the first, from its row."""
    again = tuple(one for one in measured if one.round)
    if len(again) < len(measured):
        return measured[0], again
    if steps is None:
        return None, again
    return Measurement(tuple(json.loads(steps)), warm_up or 0, prepared or 0.0, version="", ended_s=0.0), again


def text_of(rules: Sequence[Rule]) -> str:
    """Rules as JSON."""
    return json.dumps([dataclasses.asdict(rule) for rule in rules])


def rules_of(text: str) -> tuple[Rule, ...]:
    """Read the rules that :func:`text_of` has written."""
    return tuple(Rule(**rule) for rule in json.loads(text))


def json_of(profile: Profile | None) -> str | None:
    """A profile as JSON."""
    return None if profile is None else profile.to_json()
