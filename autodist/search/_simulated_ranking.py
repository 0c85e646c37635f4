"""Ranking strategies by a simulator alone: nothing is launched and nothing is measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autodist.errors import UsageError
from autodist.search._memory_filter import MemoryFilter
from autodist.search.searchers import Score, ScoredProposals, Searcher
from autodist.search.space import Proposals, obeys, recognize
from autodist.simulator import Floats, Simulator
from autodist.strategies import Strategy

_KEPT = 5


@dataclass(frozen=True)
class ScoringBudget:
    """How many strategies are looked at.

    Attributes:
        proposals: The most strategies that are scored, 1 or more.
        time_s: Seconds after which no more are scored, above 0; None for no bound. With a bound, the same seed may
            give another result on a faster machine.

    Raises:
        UsageError: One of them is too small.
    """

    proposals: int = 30_000
    time_s: float | None = None

    def __post_init__(self) -> None:
        if self.proposals < 1:
            raise UsageError(f"{self.proposals} proposals are to be scored, allowed: 1 or more")
        if self.time_s is not None and not self.time_s > 0:  # NaN is neither
            raise UsageError(f"proposals are to be scored for {self.time_s:g} s, it must be a number above 0")


@dataclass(frozen=True)
class Ranked:
    """A strategy with what a simulator expects of it.

    Attributes:
        origin: The searcher that proposed it, or its name for users.
        strategy: S.
        predicted_s: Seconds per step, as far as the simulator knows seconds.
        is_baseline: Whether users know it.
    """

    origin: str
    strategy: Strategy
    predicted_s: float
    is_baseline: bool = False


@dataclass(frozen=True)
class Ranking:
    """The knowledge about strategies without a measurement.

    Attributes:
        ranked: The best of the proposals, and all baselines; the best first.
        best: The best; with rules, the best of those that obey them, if any do.
        scored: How many proposals were scored.
    """

    ranked: tuple[Ranked, ...]
    best: Ranked
    scored: int


def rank_offline(
    searcher: Searcher,
    simulator: Simulator,
    budget: ScoringBudget = ScoringBudget(),
    baselines: Mapping[str, Strategy] = MappingProxyType({}),
) -> Ranking:
    """Search by a simulator alone.

    Baselines are candidates like all others: one that is expected to be the fastest is the best. A searcher that starts
    from known strategies starts from them. Strategies that do not fit into the hosts' memory are left out, if the spec
    says how much memory there is.

    Args:
        searcher: Proposes strategies in a space for a graph on a cluster.
        simulator: Scores the strategies.
        budget: How many strategies are scored.
        baselines: By name, strategies that users know.

    Raises:
        SpaceEmpty: Nothing fits.

    Example:
        >>> from autodist.graph import Gradient, Role, TrainingGraph, Variable
        >>> from autodist.resource_spec import ResourceSpec
        >>> from autodist.search import Catalogue, RandomSearcher, Space
        >>> from autodist.simulator import AnalyticSimulator, Domain
        >>> from autodist.strategies import PS
        >>> w = Variable("w", "h", (1000, 250), "float32", Role.TRAINABLE, (Gradient(dense="g"),))
        >>> domain = Domain.of(TrainingGraph(None, (w,), (), (), ()), ResourceSpec.local(workers=4))
        >>> space = Space(domain, communicators=("collective",))
        >>> searcher = RandomSearcher(space, Catalogue.of(space))
        >>> known = {"PS": PS().build(domain.graph, domain.spec)}
        >>> ranking = rank_offline(searcher, AnalyticSimulator(), ScoringBudget(proposals=100), known)
        >>> ranking.best.origin, ranking.ranked[-1].origin, ranking.scored
        ('random', 'PS', 100)
    """
    domain = searcher.space.domain
    room = MemoryFilter(domain)
    known = {name: strategy for name, strategy in baselines.items() if not room.why_not(strategy)}
    if len(familiar := recognize(tuple(known.values()), searcher.space, searcher.catalogue)[0]):
        searcher.suggest(familiar)
    judge = _Judge(searcher, room.score_by(simulator), budget)
    drawn = judge.best()
    fitting = room.fitting(drawn)
    if not len(fitting.scores) and not known:
        raise room.refusal(drawn)
    times = simulator.predict(list(known.values()), domain)
    ranked = [Ranked(name, s, float(t), True) for (name, s), t in zip(known.items(), times, strict=True)]
    ids = {strategy.id for strategy in known.values()}
    found = [one for one in _strategies(fitting, searcher) if one.strategy.id not in ids]
    # Among equal ones the first is the best: a baseline.
    ordered = sorted([*ranked, *found], key=lambda one: one.predicted_s)
    best = next((one for one in ordered if obeys(one.strategy, searcher.space.rules)), ordered[0])
    return Ranking(tuple(ordered), best, judge.scored)


def _strategies(found: ScoredProposals, searcher: Searcher) -> Iterator[Ranked]:
    for number, score in enumerate(found.scores):
        strategy = found.proposals.strategy(number, searcher.space, searcher.catalogue, searcher.name)
        yield Ranked(searcher.name, strategy, float(score))


class _TimeIsOver(Exception):
    """The time is over in the middle of a search."""


class _Judge:
    """Scores proposals of a searcher, and keeps the best ones, so that the search can end at any time."""

    def __init__(self, searcher: Searcher, score: Score, budget: ScoringBudget) -> None:
        self.scored = 0
        self._searcher = searcher
        self._score_of = score
        self._budget = budget
        self._best: ScoredProposals | None = None
        self._last_s = time.monotonic()
        self._end_s = self._last_s + (budget.time_s or float("inf"))

    def best(self) -> ScoredProposals:
        """The best proposals."""
        with contextlib.suppress(_TimeIsOver):
            self._searcher.ask(self._score, self._budget.proposals, _KEPT)
        assert self._best is not None, "a searcher scores something"
        return self._best

    def _score(self, proposals: Proposals) -> Floats:
        scores = self._score_of(proposals)
        found = ScoredProposals.best_of(proposals, scores, _KEPT)
        self._best = found if self._best is None else self._best.merged(found, _KEPT)
        self.scored += len(proposals)
        self._stop_in_time()
        return scores

    def _stop_in_time(self) -> None:
        """Raise if another round like the last one would take too long."""
        now_s = time.monotonic()
        took_s, self._last_s = now_s - self._last_s, now_s
        if now_s + took_s > self._end_s:
            raise _TimeIsOver
