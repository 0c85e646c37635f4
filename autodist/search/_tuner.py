"""AutoSync: propose, filter, choose, measure, learn, and again (algorithm 8 of the thesis)."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Literal, Protocol

import numpy as np

from autodist.errors import SearchFailed, SpaceEmpty, UsageError
from autodist.search._memory_filter import MemoryFilter
from autodist.search._run_off import LEAST_ROUNDS, run_off, with_measurement
from autodist.search._selection import agreement, cosine, select
from autodist.search._tiled_variants import TILED, TiledVariants
from autodist.search._utility import Time, Utility
from autodist.search._verdict import BASELINE, Verdict, verdict_of
from autodist.search.searchers import Searcher
from autodist.search.space import Catalogue, Proposals, Space, obeys, recognize
from autodist.search.store import Failure, Measurement, Trial, steady
from autodist.simulator import Floats, Simulator
from autodist.strategies import Strategy


class Measurer(Protocol):
    """Measures strategies."""

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement | Failure:
        """Measure a strategy.

        Args:
            number: Number of the trial.
            strategy: The strategy to measure.
            hopeless_s: Seconds per step beyond which the measurement may be cut short; None for no bound.
        """


@dataclass(frozen=True)
class SearchBudget:
    """When a search ends.

    Attributes:
        trials: How many strategies are measured, baselines included.
        time_s: Seconds after which no trial begins; None for no bound.
    """

    trials: int = 200
    time_s: float | None = None


@dataclass(frozen=True)
class SearchPlan:
    """How a search goes.

    Attributes:
        proposals: N of algorithm 8: how many strategies are scored for each batch of trials.
        qualified: M: from how many of the best ones candidates are chosen.
        batch: K: how many are measured before the simulator learns from them.
        alpha: The penalty for a pair of equal candidates, in standard deviations of the scores.
        hopeless: A strategy that surely takes this many times the best's time is not measured to the end.
        alike: The search gives up after this many failures for one reason, and nothing else.
        reference: After how many measurements the first strategy is measured again, so that a drift of the machines is
            seen; 0 for never.
        rounds: How often each strategy is measured, in turn with all others.
        finalists: How many of the best are measured again at the end, in turn with the best that users know.
        similarity: The measure by which candidates are compared: the number of common choices, or the cosine of the
            simulator's hidden outputs or features (thesis 8.3.2).

    Raises:
        UsageError: There is no such similarity.
    """

    proposals: int = 3000
    qualified: int = 200
    batch: int = 10
    alpha: float = 0.3
    hopeless: float = 1.5
    alike: int = 5
    finalists: int = 0
    reference: int = 0
    rounds: int = 1
    similarity: Literal["choices", "features"] = "choices"

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"each strategy is to be measured in {self.rounds} rounds, allowed: 1 or more")
        if self.similarity not in ("choices", "features"):
            raise UsageError(f"there is no similarity `{self.similarity}`, allowed: choices, features")


@dataclass
class Tuner:
    """Searches for the fastest strategy by measuring some of those that a simulator ranks high.

    Attributes:
        space: The space that it searches.
        catalogue: Catalogue of the space.
        searcher: Proposes strategies.
        simulator: The simulator; asked again for each batch, so that it may have learned.
        measurer: Measures the strategies.
        budget: When it ends.
        plan: How it goes.
        keep: Called with each trial as soon as it has ended.
        utility: The measure of the best.
        trials: All trials so far; those of an earlier search that is taken up again come first.
        is_stopped: Asked before each measurement; once it says so, the search ends.
        again_left: How many times at most one of the best will still be measured again.
    """

    space: Space
    catalogue: Catalogue
    searcher: Searcher
    simulator: Callable[[Sequence[Trial]], Simulator]
    measurer: Measurer
    budget: SearchBudget = field(default_factory=SearchBudget)
    plan: SearchPlan = field(default_factory=SearchPlan)
    keep: Callable[[Trial], None] = lambda trial: None
    utility: Utility = field(default_factory=Time)
    trials: list[Trial] = field(default_factory=list)
    is_stopped: Callable[[], bool] = lambda: False
    again_left: int = field(default=0, init=False)

    def run(self, baselines: Mapping[str, Strategy] = MappingProxyType({})) -> Trial:
        """Search to the end of the budget and return the fastest trial.

        Args:
            baselines: By name, strategies that are measured first; of several that are the same, one.

        Raises:
            SearchFailed: Every trial failed.
            SpaceEmpty: Nothing fits into the hosts' memory.
        """
        self._begun_s, self._taken_up = time.monotonic(), len(self.trials)
        self._end_s = self._begun_s + (self.budget.time_s or float("inf"))
        self._known = {trial.strategy.id for trial in self.trials}
        self._tiled = TiledVariants(self.space.domain, self.space.rules)
        self.searcher.suggest(recognize(tuple(baselines.values()), self.space, self.catalogue)[0])
        for name, strategy in baselines.items():
            if strategy.id not in self._known and not self._is_over:
                self._try(strategy, f"{BASELINE} {name}", None)
        self._tell_of(steady(self.trials))
        before = len(self.trials)
        while not self._is_over and self._batch():
            pass
        self._measure_in_rounds()
        found = verdict_of(self.trials, self.space.rules)
        if len(self.trials) > before or found is None or not found.is_confirmed:  # that may have been broken off
            self._run_off()
        return self.best

    def _run_off(self) -> None:
        """Measure the best again, as far as time allows, and each trial that may be faster than these."""
        known = [t for t in self._best_first(self.trials) if t.origin.startswith(BASELINE)]
        best = [t for t in self._best_first(self._obedient) if t not in known][: self.plan.finalists]
        earlier = verdict_of(self.trials, self.space.rules)
        winner = [earlier.best] if earlier is not None and earlier.is_confirmed else []
        default = sorted(known, key=lambda trial: trial.number)[:1]
        finalists = list({t.number: t for t in (*best, *winner, *known[:1], *default)}.values())
        if len(finalists) > (most := max(2, self._affordable)):  # then at least the best trial and the best baseline
            finalists = list({t.number: t for t in (*best[:1], *known[:1], *finalists)}.values())[:most]
        if not self.plan.finalists or len(finalists) < 2:
            return
        first = self._next_round
        # Where differences stay below the noise, half of all that is measured is enough.
        self.again_left = max(LEAST_ROUNDS * len(finalists), len(self.trials))
        run_off(finalists, partial(self._measure_again, first), self._challengers, self._has_rounds)

    @property
    def _affordable(self) -> int:
        """How many trials can be measured again `LEAST_ROUNDS` times in the time that is left."""
        each_s = LEAST_ROUNDS * (time.monotonic() - self._begun_s) / max(1, len(self.trials) - self._taken_up)
        left_s = self._end_s - time.monotonic()
        return len(self.trials) if math.isinf(left_s) else int(left_s / max(each_s, 1e-9))

    def _has_rounds(self) -> bool:
        return self.again_left > 0 and self._has_time()

    def _measure_again(self, first: int, trial: Trial, number: int) -> Trial:
        self.again_left = max(self.again_left - 1, 0)
        outcome = self.measurer.measure(trial.number, trial.strategy, None)
        if isinstance(outcome, Failure):
            return trial
        found = with_measurement(trial, outcome, first + number)
        self.trials = [found if one.number == trial.number else one for one in self.trials]
        self.keep(found)
        return found

    def _measure_in_rounds(self) -> None:
        """Measure all trials again in rounds, the least measured ones first, so that drift affects all alike."""
        chance = np.random.default_rng(len(self.trials))
        lost: set[int] = set()
        while self._has_time():
            counts = {t.number: 1 + len(t.again) for t in self.trials if t.step_s is not None and t.number not in lost}
            least = min(counts.values(), default=self.plan.rounds)
            if least >= self.plan.rounds:
                break
            number, reference = self._next_round, self._reference
            these = [one for one, count in counts.items() if count == least or one == reference]
            for place, one in enumerate(chance.permutation(these).tolist(), 1):
                [trial] = [trial for trial in self.trials if trial.number == one]
                if self._has_time() and self._measure_again(number, trial, 0) is trial:
                    lost.add(one)
                self._look_for_drift(place)

    def _look_for_drift(self, measured: int) -> None:
        """Measure the first trial again after some others: it shows how the machines' speed drifts."""
        every = self.plan.reference
        if every and self._reference is not None and not measured % every and self._has_time():
            [reference] = [trial for trial in self.trials if trial.number == self._reference]
            self._measure_again(self._next_round, reference, 0)

    @property
    def _reference(self) -> int | None:
        """The number of the trial that shows drift: the first that was measured."""
        return next((trial.number for trial in self.trials if trial.step_s is not None), None)

    @property
    def _next_round(self) -> int:
        return 1 + max((one.round for trial in self.trials for one in trial.again), default=0)

    def _challengers(self, measured: Sequence[Trial]) -> list[Trial]:
        """The trials that were faster, when first measured, than the fastest of those that were measured again."""
        numbers = {trial.number for trial in measured}
        others = [trial for trial in self._best_first(self._obedient) if trial.number not in numbers]
        fastest_s = min((trial.step_s or 0.0 for trial in measured if trial.again), default=0.0)
        room = 3 * self.plan.finalists - len(measured)
        return [trial for trial in others[: max(room, 0)] if (trial.step_s or 0.0) < fastest_s]

    @property
    def _obedient(self) -> list[Trial]:
        """The measured trials that obey the rules; all that was measured if none does."""
        measured = [trial for trial in self.trials if trial.step_s is not None]
        return [trial for trial in measured if obeys(trial.strategy, self.space.rules)] or measured

    def _best_first(self, trials: Sequence[Trial]) -> list[Trial]:
        times = {trial.number: trial.step_s for trial in steady(self.trials)}
        measured = [trial for trial in trials if trial.step_s is not None]
        return sorted(measured, key=lambda trial: self.utility.of(trial.strategy, times[trial.number] or 0.0))

    @property
    def best(self) -> Trial:
        """The best trial so far; where there are rules, of those that obey them, as far as there are any.

        Raises:
            SearchFailed: There is none.
        """
        return self.verdict.best

    @property
    def verdict(self) -> Verdict:
        """The best trial so far, and how sure that is.

        Raises:
            SearchFailed: There is none.
        """
        found = verdict_of(self.trials, self.space.rules, self.utility)
        if found is None:
            raise self._failed()
        return found

    @property
    def failures(self) -> Counter[str]:
        """How many trials failed for which reason."""
        return Counter(trial.outcome.reason for trial in self.trials if isinstance(trial.outcome, Failure))

    @property
    def _is_over(self) -> bool:
        # Measuring again takes at most half of the time, or that of all rounds but one.
        share = max(0.5, 1 - 1 / self.plan.rounds)
        kept_s = min(self.run_off_s, share * (self.budget.time_s or 0.0))
        return len(self.trials) >= self.budget.trials or not self._has_time(kept_s)

    def _has_time(self, besides_s: float = 0.0) -> bool:
        return not self.is_stopped() and time.monotonic() + besides_s < self._end_s

    @property
    def run_off_s(self) -> float:
        """About how many seconds measuring again takes: all strategies in further rounds, and the best at the end."""
        tried = len(self.trials) - self._taken_up
        finalists = self.plan.finalists + 2 if self.plan.finalists else 0
        again = LEAST_ROUNDS * finalists + (self.plan.rounds - 1) * tried
        return again * (time.monotonic() - self._begun_s) / tried if tried else 0.0

    def _tell_of(self, trials: Sequence[Trial]) -> None:
        """Tell the searcher the results of trials that it may not have proposed, as far as they are in the space."""
        proposals, numbers = recognize([trial.strategy for trial in trials], self.space, self.catalogue)
        if len(numbers):
            self.searcher.tell(proposals, np.array([_time_of(trials[number]) for number in numbers], np.float32))
        # A strategy is not tried again just because its groups have other numbers.
        self._known.update(proposals.strategy(k, self.space, self.catalogue).id for k in range(len(numbers)))

    def _batch(self) -> bool:
        """Measure one batch of candidates; False if nothing new was found."""
        room = MemoryFilter(self.space.domain)
        simulator = self.simulator(tuple(steady(self.trials)))
        drawn = self.searcher.ask(room.score_by(simulator), self.plan.proposals, self.plan.qualified)
        found = room.fitting(drawn)
        if not len(found):
            return self._ends_without_room(room.refusal(drawn))
        alike = self._similarity(found.proposals, simulator)
        tried: list[int] = []
        times: list[float] = []
        for number in select(found.scores, alike, len(found), self.plan.alpha, found.lots):
            strategy = found.proposals.strategy(number, self.space, self.catalogue, self.searcher.name)
            if strategy.id in self._known:
                continue
            if self._is_over or len(tried) == self.plan.batch:
                break
            trial = self._try(strategy, self.searcher.name, float(found.scores[number]))
            tried.append(number)
            times.append(_time_of(trial))
            self._look_for_drift(len(self.trials))
        if tried:
            self.searcher.tell(found.proposals.take(np.array(tried, np.int32)), np.array(times, np.float32))
            self._try_with_tiles(self.trials[-len(tried) :])
        return bool(tried)

    def _try_with_tiles(self, batch: Sequence[Trial]) -> None:
        """Try the fastest of a batch with tiles, if it may have some; none like one that has failed."""
        measured = [trial for trial in batch if trial.step_s is not None]
        if not measured or self._is_over:
            return
        fastest = min(measured, key=lambda trial: trial.step_s or 0.0)
        strategy = self._tiled.of(fastest.strategy, self._known, self.plan.hopeless)
        if strategy is not None:
            if isinstance(self._try(strategy, TILED, None).outcome, Failure):
                self._tiled.note_failure(strategy)
            self._look_for_drift(len(self.trials))

    def _ends_without_room(self, refusal: SpaceEmpty) -> bool:
        if not self.trials:
            raise refusal
        return False

    def _similarity(self, proposals: Proposals, simulator: Simulator) -> Floats:
        if self.plan.similarity == "choices":
            return agreement(proposals, self.catalogue)
        return cosine(simulator.represent(proposals.table, self.space.domain, len(proposals)))

    def _try(self, strategy: Strategy, origin: str, predicted: float | None) -> Trial:
        number = 1 + max((trial.number for trial in self.trials), default=-1)
        fastest = min((t.step_s for t in self.trials if t.step_s is not None), default=None)
        bound = None if fastest is None else fastest * self.plan.hopeless
        trial = Trial(number, strategy, self.measurer.measure(number, strategy, bound), origin, predicted)
        self.trials.append(trial)
        self._known.add(strategy.id)
        self.keep(trial)
        failures = [t.outcome for t in self.trials if isinstance(t.outcome, Failure)]
        if len(failures) == len(self.trials) >= self.plan.alike and len(self.failures) == 1:
            raise self._failed()
        return trial

    def _failed(self) -> SearchFailed:
        failures = [(t.number, t.outcome) for t in self.trials if isinstance(t.outcome, Failure)]
        if not failures:
            return SearchFailed("no strategy was measured", "allow more trials or more time")
        number, first = failures[0]
        counts = ", ".join(f"{count} by {reason}" for reason, count in self.failures.most_common())
        file = f"trial_{number}.json"
        return SearchFailed(
            f"{_all(len(failures))} failed ({counts}); the first: {first.headline}",
            f"repeat it: `autodist best --trial {number} --out {file}`, then `autodist run SCRIPT --strategy {file}`",
            trial=number,
        )


def _all(number: int) -> str:
    return "the only trial has" if number == 1 else f"all {number} trials"


def _time_of(trial: Trial) -> float:
    return float("nan") if trial.step_s is None else trial.step_s
