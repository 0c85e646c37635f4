"""Strategies tried out in the first training steps, which train as all others do; then the fastest stays."""

from __future__ import annotations

import json
import logging
import statistics

from autodist.coordination import Worker
from autodist.errors import TimedOut
from autodist.graph import CapturedStep
from autodist.resource_spec import ResourceSpec
from autodist.strategies import Strategy, StrategyBuilder

__all__ = ["FirstSteps"]

_LOG = logging.getLogger("autodist")
_WARM_UP = 2
_MEASURED = 5


class FirstSteps:
    """Which strategy the first training steps go by; the same on all workers.

    Every candidate has the same number of steps, so that all workers change at once without asking each other. At the
    end they tell each other their times, and the slowest worker's count.

    Args:
        worker: Who this process is.
        spec: The cluster.
        wanted: What is wanted; a builder that can't tell which strategy is the best has them tried.
        scope: What tells this scope from the others of the run.

    """

    def __init__(self, worker: Worker, spec: ResourceSpec, wanted: object, scope: str) -> None:
        self._worker = worker
        self._spec = spec
        self._builder = wanted if isinstance(wanted, StrategyBuilder) and wanted.tries > 1 else None
        self._scope = scope
        self._candidates: tuple[Strategy, ...] = ()
        self._times_s: list[list[float]] = []

    def begin(self, captured: CapturedStep, *, is_first: bool) -> Strategy | None:
        """The strategy to begin with, if several are to be tried; before any other step the trying has an end.

        Args:
            captured: A step that is about to be compiled.
            is_first: Whether there was no training step before.

        Raises:
            TimedOut: The chief does not propose any.

        """
        self._candidates = ()
        if self._builder is None or not is_first:
            return None
        self._candidates, self._times_s = self._agreed(self._builder, captured), [[]]
        return self._candidates[0]

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

    def after_step(self, took_s: float) -> Strategy | None:
        """What to change to after a training step, None to go on as before."""
        if len(self._candidates) < 2:
            return None
        times_s = self._times_s[-1]
        times_s.append(took_s)
        if len(times_s) < _WARM_UP + _MEASURED:
            return None
        if len(self._times_s) < len(self._candidates):
            self._times_s.append([])
            return self._candidates[len(self._times_s) - 1]
        last, fastest = self._candidates[-1], self._fastest()
        self._candidates = ()
        return None if fastest == last else fastest

    def _fastest(self) -> Strategy:
        own = [statistics.median(times_s[_WARM_UP:]) for times_s in self._times_s]
        slowest = [max(times_s) for times_s in zip(*self._of_all(own), strict=True)]
        best = slowest.index(min(slowest))
        if self._worker.is_chief:
            told = ", ".join(f"{1e3 * step_s:.3g}" for step_s in slowest)
            _LOG.info(
                "tried %d strategies in the first %d steps (%s ms per step): stays with number %d",
                len(slowest), sum(map(len, self._times_s)), told, best + 1,
            )  # fmt: skip
        return self._candidates[best]

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
