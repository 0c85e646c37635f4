"""The strategy that nobody has to choose: measured before, or expected to be the fastest."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.errors import SimulatorError, StoreError, StrategyError
from autodist.registry import raise_mistakes
from autodist.resource_spec import ResourceSpec
from autodist.search._baselines import known_strategies
from autodist.search._catalogue import Catalogue
from autodist.search._datasets import data_sets
from autodist.search._offline import Effort, Ranked, rank_offline
from autodist.search._rehosting import are_alike, rehosted
from autodist.search._searchers import RandomSearcher
from autodist.search._space import Space
from autodist.search._store import Study, TrialStore
from autodist.search._study_file import import_studies
from autodist.search._trials import Trial
from autodist.simulator import (
    Domain,
    EventSimulator,
    ForestSimulator,
    Measured,
    Profile,
    ProfileCache,
    Simulator,
    calibrated,
)
from autodist.strategies import AllReduce, Strategy, StrategyBuilder, check

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph

__all__ = ["DEFAULT_TRIALS", "Auto"]

DEFAULT_TRIALS = "runs/trials.db"
"""Where searches keep trials if nothing else is said, relative to the working directory."""

_MARGIN = 0.05
"""By how much a strategy must be expected to be faster than those that users know: simulators err."""
_ENOUGH_TO_CALIBRATE = 12
_ENOUGH_TO_LEARN = 60
_MOST_LESSONS = 300
"""Measured strategies, of all graphs and clusters together. More would take longer than a choice may."""
_MOST_OF_EACH = 60
"""Of one graph on one cluster."""


@final
@dataclass(frozen=True)
class Auto(StrategyBuilder):
    """The fastest strategy that was measured for the graph on the cluster, else the one that is expected to be.

    Trials of the same graph on the same cluster, or one that differs from it in names alone, decide by themselves.
    Without them strategies are drawn and ranked, those that users know among them, by the event simulation; it has
    learned from trials of other graphs and clusters if there are some. What it chose and why is told.

    Attributes:
        trials: A trial store, or a file of studies; None takes ``runs/trials.db`` where it is there.
        proposals: How many strategies are ranked at most.
        time_s: Seconds for that at most.
        seed: Of what is drawn.
        online: How many strategies are tried in the first training steps, so far as none was measured before; they
            train as all others do. 1 takes the one that is expected to be the fastest.

    """

    name: ClassVar[str] = "auto"
    file: ClassVar[str | None] = "trials"
    trials: str | None = None
    proposals: int = 20_000
    time_s: float = 5.0
    seed: int = 0
    online: int = 1

    def __post_init__(self) -> None:
        numbers = {"proposals": self.proposals, "time_s": self.time_s, "online": self.online}
        least = {"proposals": 1, "time_s": 0.1, "online": 1}
        wrong = [name for name in least if not numbers[name] >= least[name]]
        raise_mistakes(self.name, [f"`{n}` is {numbers[n]}, allowed: at least {least[n]}" for n in wrong])

    @property
    def tries(self) -> int:
        """How many strategies are tried out in the first training steps."""
        return self.online

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Choose; the strategy's ``builder`` says why."""
        return self._chosen(graph, spec)[0]

    def candidates(self, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        """The fastest that was measured, alone; else the best of those that are expected to be fast."""
        return self._chosen(graph, spec)[: self.online]

    def _chosen(self, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        if len(spec.replicas) == 1:
            return (AllReduce().build(graph, spec),)  # nothing is to be synchronized
        with self._store() as store:
            measured = self._measured(store, graph, spec)
            return self._expected(store, graph, spec) if measured is None else (measured,)

    # What was measured -------------------------------------------------------------------------------------------

    def _measured(self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> Strategy | None:
        for study in reversed(_studies_of(graph, store)):
            there = ResourceSpec.from_json(study.spec)
            is_same_batch = graph.batch_size in (None, study.batch_size)
            if are_alike(there, spec) and is_same_batch:
                found = self._fastest(store.trials(study), there, graph, spec)
                if found is not None:
                    return replace(found[0], builder=f"auto: the fastest of {found[1]} in study {study.id}")
        return None

    def _fastest_elsewhere(self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> dict[str, Strategy]:
        """What was the fastest for the graph on other clusters of as many hosts, by name."""
        found: dict[str, Strategy] = {}
        for study in _studies_of(graph, store):
            there = ResourceSpec.from_json(study.spec)
            if len(there.hosts) == len(spec.hosts):
                best = self._fastest(store.trials(study), there, graph, spec)
                found |= {f"the fastest of study {study.id}": best[0]} if best is not None else {}
        return found

    @staticmethod
    def _fastest(
        trials: Sequence[Trial], there: ResourceSpec, graph: TrainingGraph, spec: ResourceSpec
    ) -> tuple[Strategy, str] | None:
        """The fastest trial that can be used, and how it compares with what users know."""
        measured = sorted((t for t in trials if t.step_s is not None), key=lambda t: t.step_s or 0.0)
        for trial in measured:
            strategy = rehosted(trial.strategy, there, spec)
            with contextlib.suppress(StrategyError):  # Horovod is not here, or it is of another version
                check(strategy, graph, spec)
                return strategy, f"{len(measured)} that were measured, {1e3 * (trial.step_s or 0):.3g} ms per step,"
        return None

    @contextlib.contextmanager
    def _store(self) -> Iterator[TrialStore]:
        """The trials; a file of studies is read into a store of its own, which is empty where there are none."""
        path = Path(self.trials if self.trials is not None else DEFAULT_TRIALS)
        if not path.is_file() and self.trials is not None:
            raise StoreError(f"there are no trials in `{path}`", hint="make some by `autodist search`")
        is_store = path.is_file() and path.suffix != ".zip"
        with (
            tempfile.TemporaryDirectory() as directory,
            TrialStore(path if is_store else Path(directory, "trials.db")) as store,
        ):
            if path.is_file() and not is_store:
                import_studies(store, path)
            yield store

    # What is expected --------------------------------------------------------------------------------------------

    def _expected(self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        """Those that are worth a try, the best first; those that users know and others by turns."""
        domain = Domain.of(graph, spec, profile=_profile(store, graph))
        simulator, knowing = self._simulator(_lessons(store, graph, spec))
        space = Space(domain)
        searcher = RandomSearcher(space, Catalogue.of(space), self.seed)
        baselines = {name: fits for name, fits in known_strategies(domain) if isinstance(fits, Strategy)}
        baselines |= self._fastest_elsewhere(store, graph, spec)
        ranking = rank_offline(searcher, simulator, Effort(self.proposals, self.time_s), baselines)
        of = f"of {ranking.scored} and {len(baselines)} that are known by {knowing}; profile: {domain.profile.source}"
        return tuple(
            replace(one.strategy, builder=f"auto: {_name(one)}, expected to be number {place} {of}")
            for place, one in enumerate(_by_turns(ranking.ranked), 1)
        )

    def _simulator(self, sets: Sequence[Measured]) -> tuple[Simulator, str]:
        count = sum(map(len, sets))
        if count >= _ENOUGH_TO_LEARN:
            forest = ForestSimulator(self.seed)
            forest.fit(sets)
            return forest, f"what {count} trials of others teach"
        if count >= _ENOUGH_TO_CALIBRATE:
            return calibrated(EventSimulator(), sets), f"the event simulation, calibrated by {count} trials"
        return EventSimulator(), "the event simulation; no trials are known"


def _studies_of(graph: TrainingGraph, store: TrialStore) -> list[Study]:
    return [study for study in store.studies() if study.graph == graph.fingerprint]


def _lessons(store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> list[Measured]:
    """Trials to learn from within seconds: some of each data set, those most like what is asked for first."""

    def unlike(study: Study) -> tuple[bool, bool, int]:
        other_size = len(ResourceSpec.from_json(study.spec).hosts) != len(spec.hosts)
        return study.graph != graph.fingerprint, other_size, -study.id

    found: list[Measured] = []
    for data in data_sets(store, sorted(store.studies(), key=unlike)):
        if len(data.measured) > 1:
            some = np.linspace(0, len(data.measured) - 1, min(_MOST_OF_EACH, len(data.measured)), dtype=np.int32)
            found.append(data.measured.take(some))
        if sum(map(len, found)) >= _MOST_LESSONS:
            break
    return found


def _profile(store: TrialStore, graph: TrainingGraph) -> Profile | None:
    """The graph's profile, if there was a search of it on another cluster, or if `autodist profile` made one."""
    found = [study.profile for study in _studies_of(graph, store) if study.profile is not None]
    if found:
        return found[-1]
    with contextlib.suppress(SimulatorError):  # a damaged file in the cache: an estimate will do
        return ProfileCache.of_user().newest(graph)
    return None


def _name(ranked: Ranked) -> str:
    return f"`{ranked.origin}`" if ranked.is_baseline else "one that was found"


def _by_turns(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Those that users know and those that were found by turns; one of these first if it is clearly better."""
    known, found = ([one for one in ranked if one.is_baseline is is_known] for is_known in (True, False))
    is_better = not known or (found and found[0].predicted_s < (1 - _MARGIN) * known[0].predicted_s)
    first, second = (found, known) if is_better else (known, found)
    pairs = itertools.zip_longest(first, second)
    return [one for pair in pairs for one in pair if one is not None]
