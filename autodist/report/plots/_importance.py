"""Which choices matter: how much worse step times are explained when a choice is shuffled among the trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autodist.report.plots._readable_features import ChoiceFeatures, choice_features
from autodist.report.plots._searched import step_s_of
from autodist.search import Trial
from autodist.simulator import Floats
from autodist.strategies import Strategy

_FEWEST = 20
_FOLDS = 5
_REPEATS = 10


@dataclass(frozen=True)
class ChoiceEffect:
    """How much a choice matters.

    Attributes:
        name: Name of the kind of choice, or of the variable.
        loss: By how much R² of the strategies that were left out falls when it is shuffled among them.
        deviation: Standard deviation of that over several shufflings.
    """

    name: str
    loss: float
    deviation: float


@dataclass(frozen=True)
class Importance:
    """Which choices matter for the time of a step.

    Attributes:
        num_strategies: How many measured strategies say so.
        r2: Share of the variance of the logarithm of the step time that boosted trees explain in strategies that were
            left out of their training; at or below 0 they know nothing. None if there is nothing to learn from.
        kinds: By kind of choice, for all variables; the most important first.
        variables: By variable, for all its choices; the most important first.
        why_not: Why there is no answer; empty if there is one.
    """

    num_strategies: int
    r2: float | None = None
    kinds: tuple[ChoiceEffect, ...] = ()
    variables: tuple[ChoiceEffect, ...] = ()
    why_not: str = ""


def importance_of(trials: Sequence[Trial], sizes: Mapping[str, int], *, seed: int = 0) -> Importance:
    """Which choices of measured trials matter, by permutation importance on strategies that were left out.

    Gradient-boosted trees learn the logarithm of the step time from the choices, in five parts of which each is left
    out once. Choices that go together, like a synchronizer and its server, share what they explain.

    Args:
        trials: Trials of one graph on one cluster; those that failed are passed over.
        sizes: By variable, its bytes.
        seed: Seed of the parts and the shuffling.

    Example:
        >>> importance_of([], {}).why_not
        '0 strategies were measured, it takes 20 to say which choices matter'
    """
    logs_of = _logs_of([trial for trial in trials if trial.step_s is not None])
    count = len(logs_of)
    if count < _FEWEST:
        told = f"{count} strateg{'y was' if count == 1 else 'ies were'} measured, it takes {_FEWEST}"
        return Importance(count, why_not=f"{told} to say which choices matter")
    logs = np.array([np.mean(found) for found in logs_of.values()])
    features = choice_features(list(logs_of), sizes)
    if not features.kinds or not np.ptp(logs):
        return Importance(count, why_not="all measured strategies are alike")
    return _explained(features, logs, seed)


def _logs_of(measured: Sequence[Trial]) -> dict[Strategy, list[float]]:
    """The logarithms of the step times of each strategy.

    One that several searches have measured must not be in two parts: trees that have seen it know it.
    """
    strategies = {trial.strategy.id: trial.strategy for trial in measured}
    found: dict[str, list[float]] = {identity: [] for identity in strategies}
    for trial in measured:
        found[trial.strategy.id].append(math.log(step_s_of(trial)))
    return {strategies[identity]: logs for identity, logs in found.items()}


def _explained(features: ChoiceFeatures, logs: Floats, seed: int) -> Importance:
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.model_selection import KFold

    parts: list[_Part] = []
    for train, test in KFold(_FOLDS, shuffle=True, random_state=seed).split(logs):
        trees = GradientBoostingRegressor(n_estimators=200, learning_rate=0.05, subsample=0.8, random_state=seed)
        trees.fit(features.values[train], logs[train])
        parts.append(_Part(trees.predict, features.values[test], logs[test]))
    variance = float(((logs - logs.mean()) ** 2).sum())
    chance = np.random.default_rng(seed)

    def effects(names: Sequence[str]) -> tuple[ChoiceEffect, ...]:
        found = []
        for name in dict.fromkeys(names):
            columns = [column for column, other in enumerate(names) if other == name]
            losses = [sum([part.loss(columns, chance) for part in parts]) / variance for _ in range(_REPEATS)]
            found.append(ChoiceEffect(name, float(np.mean(losses)), float(np.std(losses))))
        return tuple(sorted(found, key=lambda effect: -effect.loss))

    r2 = 1 - sum(part.error for part in parts) / variance
    return Importance(len(logs), r2, effects(features.kinds), effects(features.variables))


class _Part:
    """Trials that were left out, and the trees that have not seen them."""

    def __init__(self, predict: Callable[[Floats], Floats], values: Floats, logs: Floats) -> None:
        self._predict, self._values, self._logs = predict, values, logs
        self.error = self._error(values)

    def loss(self, columns: Sequence[int], chance: np.random.Generator) -> float:
        """How much the squared error grows when the columns are shuffled together."""
        values = self._values.copy()
        values[:, columns] = values[chance.permutation(len(values))][:, columns]
        return self._error(values) - self.error

    def _error(self, values: Floats) -> float:
        return float(((self._predict(values) - self._logs) ** 2).sum())
