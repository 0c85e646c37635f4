"""Merges copies of studies in two stores after both have got further trials."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from autodist.resource_spec import ResourceSpec
from autodist.search.store._retargeting import without_access
from autodist.search.store._store import Study, TrialStore
from autodist.search.store._trials import Failure, Measurement, Trial


def study_like(store: TrialStore, study: Study, spec: ResourceSpec, trials: Sequence[Trial]) -> Study | None:
    """The study of a store that began with the same measured trial as another one, and so is a copy of it."""
    first = next((trial for trial in trials if isinstance(trial.outcome, Measurement)), None)
    if first is None:
        return None
    wanted = study.graph, study.batch_size, study.label, without_access(spec)
    for one in store.studies():
        there = one.graph, one.batch_size, one.label, without_access(ResourceSpec.from_json(one.spec))
        if there != wanted:
            continue
        for trial in store.trials(one, [first.number]):
            if trial.strategy.id == first.strategy.id and _steps(trial.outcome) == _steps(first.outcome):
                return one
    return None


def news_of(mine: Sequence[Trial], theirs: Sequence[Trial]) -> Iterator[Trial]:
    """Other trials that are not among these, to add: those of other strategies, and other measurements.

    Example:
        >>> from autodist.strategies import GraphConfig, Strategy
        >>> strategy = Strategy(GraphConfig((), "tcp"), ())
        >>> mine = Trial(0, strategy, Measurement((0.2,)), "random")
        >>> theirs = replace(mine, again=(Measurement((0.3,), round=1),))
        >>> [trial.again[0].steps_s for trial in news_of([mine], [theirs])], list(news_of([theirs], [mine]))
        ([(0.3,)], [])
    """
    known = {trial.strategy.id: trial for trial in reversed(mine)}
    numbers = itertools.count(1 + max((trial.number for trial in mine), default=-1))
    later = 1 + max((one.round for trial in mine for one in trial.again), default=0)
    for trial in theirs:
        before = known.get(trial.strategy.id)
        if before is None:
            yield replace(trial, number=next(numbers))
            continue
        had = {_steps(one) for one in (before.outcome, *before.again)}
        new = [one for one in (trial.outcome, *trial.again) if isinstance(one, Measurement) and one.steps_s not in had]
        if not new:
            continue
        outcome = before.outcome
        if isinstance(outcome, Failure):  # it failed in this store
            outcome, new = replace(new[0], round=0), new[1:]
        again = (replace(one, round=later + one.round) for one in new)
        yield replace(before, outcome=outcome, again=(*before.again, *again))


def _steps(outcome: Measurement | Failure) -> tuple[float, ...]:
    return outcome.steps_s if isinstance(outcome, Measurement) else ()
