"""AutoSync: propose, filter, choose, measure, learn, and again (algorithm 8 of the thesis)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

import numpy as np

from autodist.errors import SearchFailed
from autodist.search._catalogue import Catalogue
from autodist.search._proposals import Proposals
from autodist.search._searchers import Searcher
from autodist.search._selection import agreement, select
from autodist.search._space import Space
from autodist.search._trials import Failure, Measurement, Trial
from autodist.simulator import Floats, Simulator
from autodist.strategies import Strategy

BASELINE = "baseline"
"""How the origin of trials begins that users know."""

__all__ = ["BASELINE", "Bench", "Budget", "Plan", "Tuner"]


class Bench(Protocol):
    """Who measures strategies."""

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement | Failure:
        """Measure a strategy.

        Args:
            number: Of the trial.
            strategy: What is measured.
            hopeless_s: Seconds per step beyond which the measurement may be cut short; None for no bound.

        """


@dataclass(frozen=True)
class Budget:
    """When a search ends.

    Attributes:
        trials: How many strategies are measured, baselines included.
        time_s: Seconds after which no trial begins; None for no bound.

    """

    trials: int = 200
    time_s: float | None = None


@dataclass(frozen=True)
class Plan:
    """How a search goes.

    Attributes:
        proposals: N of algorithm 8: how many strategies are scored for each batch of trials.
        qualified: M: how many of them candidates are chosen from.
        batch: K: how many are measured before the simulator learns from them.
        alpha: What a pair of candidates that are alike costs, in standard deviations of the scores.
        hopeless: A strategy whose first steps take so many times the best's is not measured to the end.
        alike: After so many failures for one reason, and nothing else, the search gives up.

    """

    proposals: int = 3000
    qualified: int = 200
    batch: int = 10
    alpha: float = 0.3
    hopeless: float = 3.0
    alike: int = 5


@dataclass
class Tuner:
    """Searches the fastest strategy by measuring some of those that a simulator thinks well of.

    Attributes:
        space: Where it looks.
        catalogue: Of the space.
        searcher: Who proposes.
        simulator: Who scores; asked anew for each batch, so that it may have learned.
        bench: Who measures.
        budget: When it ends.
        plan: How it goes.
        keep: Called with each trial as soon as it has ended.
        trials: All trials so far; those of an earlier search that is taken up again come first.

    """

    space: Space
    catalogue: Catalogue
    searcher: Searcher
    simulator: Callable[[Sequence[Trial]], Simulator]
    bench: Bench
    budget: Budget = field(default_factory=Budget)
    plan: Plan = field(default_factory=Plan)
    keep: Callable[[Trial], None] = lambda trial: None
    trials: list[Trial] = field(default_factory=list)

    def run(self, baselines: Mapping[str, Strategy] = MappingProxyType({})) -> Trial:
        """Search to the end of the budget and return the fastest trial.

        Args:
            baselines: By name, strategies that are measured first; of several that are the same, one.

        Raises:
            SearchFailed: Every trial failed.

        """
        self._end_s = time.monotonic() + (self.budget.time_s or float("inf"))
        done = {trial.strategy.id for trial in self.trials}
        for name, strategy in baselines.items():
            if strategy.id not in done and not self._is_over:
                self._try(strategy, f"{BASELINE} {name}", None)
                done.add(strategy.id)
        while not self._is_over and self._batch():
            pass
        return self.best

    @property
    def best(self) -> Trial:
        """The fastest trial so far; where there are rules, of those that obey them, so far as there are any.

        Raises:
            SearchFailed: There is none.

        """
        measured = [trial for trial in self.trials if trial.step_s is not None]
        if self.space.rules:
            obedient = [trial for trial in measured if not trial.origin.startswith(BASELINE)]
            measured = obedient or measured
        if not measured:
            raise SearchFailed(*self._why())
        return min(measured, key=lambda trial: trial.step_s or 0.0)

    @property
    def failures(self) -> Counter[str]:
        """How many trials failed for which reason."""
        return Counter(trial.outcome.reason for trial in self.trials if isinstance(trial.outcome, Failure))

    @property
    def _is_over(self) -> bool:
        return len(self.trials) >= self.budget.trials or time.monotonic() >= self._end_s

    def _batch(self) -> bool:
        """Measure one batch of candidates; False if nothing new was found."""
        simulator = self.simulator(tuple(self.trials))
        domain = self.space.domain

        def score(proposals: Proposals) -> Floats:
            return simulator.score(proposals.table, domain, len(proposals))

        found = self.searcher.ask(score, self.plan.proposals, self.plan.qualified)
        known = {trial.strategy.id for trial in self.trials}
        alike = agreement(found.proposals, self.catalogue)
        tried: list[int] = []
        times: list[float] = []
        for number in select(found.scores, alike, len(found.scores), self.plan.alpha):
            strategy = found.proposals.strategy(number, self.space, self.catalogue, self.searcher.name)
            if strategy.id in known:
                continue
            if self._is_over or len(tried) == self.plan.batch:
                break
            trial = self._try(strategy, self.searcher.name, float(found.scores[number]))
            tried.append(number)
            times.append(trial.step_s if trial.step_s is not None else float("nan"))
        if tried:
            self.searcher.tell(found.proposals.take(np.array(tried, np.int32)), np.array(times, np.float32))
        return bool(tried)

    def _try(self, strategy: Strategy, origin: str, predicted: float | None) -> Trial:
        number = 1 + max((trial.number for trial in self.trials), default=-1)
        fastest = min((t.step_s for t in self.trials if t.step_s is not None), default=None)
        bound = None if fastest is None else fastest * self.plan.hopeless
        trial = Trial(number, strategy, self.bench.measure(number, strategy, bound), origin, predicted)
        self.trials.append(trial)
        self.keep(trial)
        failures = [t.outcome for t in self.trials if isinstance(t.outcome, Failure)]
        if len(failures) == len(self.trials) >= self.plan.alike and len(self.failures) == 1:
            raise SearchFailed(*self._why())
        return trial

    def _why(self) -> tuple[str, str]:
        failures = [(t.number, t.outcome) for t in self.trials if isinstance(t.outcome, Failure)]
        if not failures:
            return "no strategy was measured", "allow more trials or more time"
        number, first = failures[0]
        counts = ", ".join(f"{count} by {reason}" for reason, count in self.failures.most_common())
        return f"all {len(failures)} trials failed ({counts}); the first: {first.message}", f"repeat trial {number}"


def progress(trials: Sequence[Trial]) -> Iterator[float]:
    """The best step time after each trial; infinite until one was measured."""
    best = float("inf")
    for trial in trials:
        best = min(best, trial.step_s if trial.step_s is not None else best)
        yield best
