"""Strategies tried out in the first training steps, which train as all others do; then the fastest stays."""

from __future__ import annotations

import json
import logging
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from autodist.coordination import CandidateNote, Worker
from autodist.errors import TimedOut
from autodist.graph import CapturedStep
from autodist.resource_spec import ResourceSpec
from autodist.runtime._keras_distribution import has_layouts
from autodist.strategies import Strategy, StrategyBuilder

_LOG = logging.getLogger("autodist")
_WARM_UP = 2
_MEASURED = 5


@dataclass(frozen=True)
class _Tried:
    """A strategy, and how long its steps took."""

    strategy: Strategy
    times_s: list[float] = field(default_factory=list)


class FirstSteps:
    """The strategies of the first training steps; the same on all workers.

    Every candidate has the same number of steps, so that all workers change at once without asking each other. At the
    end they tell each other their times, and the slowest worker's count.

    Args:
        worker: This process.
        spec: The cluster.
        wanted: The strategy or builder of the scope; a builder that can't tell which is best has several tried.
        scope: What tells this scope from the others of the run.
    """

    def __init__(self, worker: Worker, spec: ResourceSpec, wanted: object, scope: str) -> None:
        self._worker = worker
        self._spec = spec
        self._builder = wanted if isinstance(wanted, StrategyBuilder) and wanted.tries > 1 else None
        self._scope = scope
        self._tried: list[_Tried] = []
        self._left: list[Strategy] = []

    def begin(self, captured: CapturedStep, take: Callable[[Strategy], bool], *, is_first: bool) -> None:
        """Take the strategy to begin with, if several are to be tried; the trials end before any other step.

        Where the script says by layouts of Keras which strategy a step has, there is nothing to try.

        Args:
            captured: A step that is about to be compiled.
            take: Takes a strategy for it, and says whether it can be compiled; the same on all workers.
            is_first: Whether there was no training step before.

        Raises:
            TimedOut: The chief does not propose any.
        """
        if self._tried:
            self._tell(None)
        self._tried, self._left = [], []
        if self._builder is None or not is_first or has_layouts(captured.graph):
            return
        first, *self._left = self._not_left_out(self._agreed(self._builder, captured))
        self._tell(first if self._left else None)
        while not take(first) and self._left:
            first = self._left.pop(0)
            self._tell(first)
        self._tried = [_Tried(first)]

    def _not_left_out(self, found: Sequence[Strategy]) -> Sequence[Strategy]:
        """The strategies that have not ended this run before; if all have, the last one, which fails again."""
        left = [strategy for strategy in found if strategy.id not in self._worker.environment.left_out]
        return left or found[-1:]

    def _tell(self, strategy: Strategy | None) -> None:
        """Tell the launcher which strategy is being tried, so that a restart leaves it out if it ends the run."""
        coordinator = self._worker.coordinator
        if self._worker.is_chief and coordinator is not None:
            (CandidateNote() if strategy is None else CandidateNote(strategy.id, strategy.mixture)).tell(coordinator)

    def _agreed(self, builder: StrategyBuilder, captured: CapturedStep) -> tuple[Strategy, ...]:
        """The chief's strategies, on every worker."""
        coordinator, key = self._worker.coordinator, f"candidates/{self._scope}"
        if coordinator is None or self._worker.world_size == 1:
            return builder.candidates(captured.graph, self._spec)
        if self._worker.is_chief:
            found = builder.candidates(captured.graph, self._spec)
            coordinator.put(key, json.dumps([strategy.to_json() for strategy in found]).encode())
            return found
        texts = json.loads(coordinator.get(key, self._worker.environment.start_timeout_s))
        return tuple(map(Strategy.from_json, texts))

    def after_step(self, took_s: float, change: Callable[[Strategy], bool]) -> None:
        """Go over to another strategy when the one that runs has had its steps.

        Args:
            took_s: How long a training step took.
            change: Goes over to a strategy, or says that it can't; the same on all workers.
        """
        if len(self._tried) + len(self._left) < 2:
            return
        times_s = self._tried[-1].times_s
        times_s.append(took_s)
        if len(times_s) < _WARM_UP + _MEASURED:
            return
        while self._left:
            strategy = self._left.pop(0)
            self._tell(strategy)
            if change(strategy):
                self._tried.append(_Tried(strategy))
                return
        last, fastest = self._tried[-1].strategy, self._fastest()
        self._tried = []
        if fastest != last:
            change(fastest)
        self._tell(None)

    def _fastest(self) -> Strategy:
        own = [statistics.median(tried.times_s[_WARM_UP:]) for tried in self._tried]
        slowest = [max(times_s) for times_s in zip(*self._of_all(own), strict=True)]
        best = slowest.index(min(slowest))
        if self._worker.is_chief:
            told = ", ".join(f"{1e3 * step_s:.3g}" for step_s in slowest)
            _LOG.info(
                "tried %d strategies in the first %d steps (%s ms per step): stays with number %d",
                len(slowest), sum(len(tried.times_s) for tried in self._tried), told, best + 1,
            )  # fmt: skip
        return self._tried[best].strategy

    def _of_all(self, own: list[float]) -> list[list[float]]:
        coordinator = self._worker.coordinator
        if coordinator is None or self._worker.world_size == 1:
            return [own]
        coordinator.put(f"online/{self._scope}/{self._worker.rank}", json.dumps(own).encode())
        timeout_s = self._worker.environment.start_timeout_s
        with self._worker.whereabouts.at("has tried strategies"):
            try:
                keys = [f"online/{self._scope}/{rank}" for rank in range(self._worker.world_size)]
                return [json.loads(coordinator.get(key, timeout_s)) for key in keys]
            except TimedOut as error:
                raise TimedOut(
                    f"worker {self._worker.rank} has tried all strategies, others have not: {error.message}",
                    hint="all workers must take the same training steps",
                ) from error
