"""A search from the script to the file of the best strategy."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from autodist.errors import StoreError, StrategyError, UsageError
from autodist.launch import ClusterLauncher, Job
from autodist.search import (
    ASPECTS,
    SEARCHERS,
    Budget,
    Catalogue,
    Plan,
    Rule,
    Searcher,
    Space,
    Study,
    Trial,
    TrialStore,
    Tuner,
)
from autodist.simulator import (
    AnalyticSimulator,
    Domain,
    EventSimulator,
    IndifferentSimulator,
    LearnedSimulator,
    LinearSimulator,
    Measured,
    RecurrentSimulator,
    Simulator,
)
from autodist.strategies import Strategy, StrategyBuilder, check, get
from autodist.tuning._bench import Course, LaunchedBench

__all__ = ["SIMULATORS", "Baseline", "SearchObserver", "SearchRequest", "SearchResult", "search"]

SIMULATORS: Mapping[str, Callable[[], Simulator]] = {
    simulator.name: simulator
    for simulator in (EventSimulator, AnalyticSimulator, LinearSimulator, RecurrentSimulator, IndifferentSimulator)
}
"""By name, those that a search may choose by."""

_ENOUGH_TO_LEARN = 12
"""Measured trials; before, those that learn leave the choice to the event simulation."""
_BASELINES = (
    "AllReduce(communicator='horovod')",
    "AllReduce(communicator='collective')",
    "PSLoadBalancing",
    "PartitionedPS",
    "Parallax",
)


@dataclass(frozen=True)
class SearchRequest:
    """What is searched, and how.

    Attributes:
        store: Where trials are kept.
        budget: When the search ends.
        course: How a trial goes.
        plan: How proposals become trials.
        searcher: Who proposes, by name.
        simulator: Who scores, by name.
        rules: What is pinned and forbidden.
        allowed: Names of aspects that change results and are to be searched as well.
        resumes: Whether to take up the last search of the same graph on the same cluster.
        seed: Of what the searcher draws.

    Raises:
        UsageError: There is no such searcher, simulator or aspect.

    """

    store: Path
    budget: Budget = field(default_factory=Budget)
    course: Course = field(default_factory=Course)
    plan: Plan = field(default_factory=Plan)
    searcher: str = "random"
    simulator: str = "events"
    rules: tuple[Rule, ...] = ()
    allowed: tuple[str, ...] = ()
    resumes: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        _check_known("searcher", self.searcher, [searcher.name for searcher in SEARCHERS])
        _check_known("simulator", self.simulator, list(SIMULATORS))
        for name in self.allowed:
            _check_known("aspect", name, [aspect.name for aspect in ASPECTS if aspect.changes_results])

    def space_of(self, domain: Domain) -> Space:
        """Where to search.

        Raises:
            SpaceEmpty: Nowhere.
        """
        aspects = [aspect for aspect in ASPECTS if not aspect.changes_results or aspect.name in self.allowed]
        return Space(domain, self.rules, aspects=aspects)

    def searcher_of(self, space: Space, catalogue: Catalogue) -> Searcher:
        """The searcher for a space."""
        [kind] = [searcher for searcher in SEARCHERS if searcher.name == self.searcher]
        return kind(space, catalogue, self.seed)

    def simulator_of(self, domain: Domain, trials: Sequence[Trial]) -> Simulator:
        """The simulator after some trials: it has learned from them if it can."""
        simulator = SIMULATORS[self.simulator]()
        if not isinstance(simulator, LearnedSimulator):
            return simulator
        known = [(trial.strategy, trial.step_s) for trial in trials if trial.step_s is not None]
        if len(known) < _ENOUGH_TO_LEARN:
            return EventSimulator()
        simulator.seed = self.seed
        simulator.fit([Measured.of(domain, [s for s, _ in known], [step_s for _, step_s in known])])
        return simulator


def _check_known(what: str, given: str, allowed: Sequence[str]) -> None:
    if given not in allowed:
        raise UsageError(f"there is no {what} `{given}`, allowed: {', '.join(allowed)}")


@dataclass(frozen=True)
class Baseline:
    """A strategy that users know, measured in the same search.

    Attributes:
        name: As users write it.
        trial: Its trial; that of another baseline if it is the same strategy. None if it was not tried.
        why_not: Why it does not fit the graph or the cluster, empty if it does.

    """

    name: str
    trial: Trial | None = None
    why_not: str = ""


@dataclass(frozen=True)
class SearchResult:
    """What came out.

    Attributes:
        best: The fastest trial.
        trials: All of them, those of an earlier search that was taken up included.
        baselines: What users know.
        study: Its number in the store.
        duration_s: Of this search.
        starts: How often workers were started.

    """

    best: Trial
    trials: tuple[Trial, ...]
    baselines: tuple[Baseline, ...]
    study: int
    duration_s: float
    starts: int

    @property
    def fastest_baseline(self) -> Baseline | None:
        """The fastest strategy that users know; None if none was measured."""
        measured = {b.trial.step_s: b for b in self.baselines if b.trial is not None and b.trial.step_s is not None}
        return measured[min(measured)] if measured else None


class SearchObserver(Protocol):
    """Who watches a search; called from another thread than the one that started it."""

    def captured(self, space: Space, earlier: Sequence[Trial]) -> None:
        """Take what is searched, and the trials of the search that is taken up."""

    def tried(self, trials: Sequence[Trial], left_s: float) -> None:
        """Take all trials so far, of which the last one has just ended, and the seconds that are left at most."""


def search(request: SearchRequest, job: Job, launcher: ClusterLauncher, observer: SearchObserver) -> SearchResult:
    """Search the fastest strategy for the first training step of a script, on the machines of a job.

    The script runs up to that step, in every worker. There the strategies are measured, one after another, with the
    variables and the batch of that moment; nothing is trained, and the script ends with the search.

    Args:
        request: What is searched, and how.
        job: The script and the cluster.
        launcher: Starts the workers.
        observer: Told of the search's course.

    Raises:
        LaunchError: The workers could not be started.
        SearchFailed: Nothing could be measured.
        SearchInterrupted: Ctrl-C; the trials so far are in the store.
        SpaceEmpty: The rules leave nothing.
        StoreError: The store can't be used, or has nothing to take up.

    """
    bench = LaunchedBench(launcher, job, request.course)
    session = _Session(request, job, bench, observer)
    thread = threading.Thread(target=session.run, name="autodist search")
    thread.start()
    try:
        bench.serve()
    finally:
        bench.close()
        thread.join()
    return session.result()


class _Session:
    """The search beside the launching."""

    def __init__(self, request: SearchRequest, job: Job, bench: LaunchedBench, observer: SearchObserver) -> None:
        self._request = request
        self._job = job
        self._bench = bench
        self._observer = observer
        self._result: SearchResult | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Search; errors are kept for :meth:`result`."""
        try:
            self._result = self._searched()
        except BaseException as error:
            self._error = error
        finally:
            self._bench.close()

    def result(self) -> SearchResult:
        """What came out; raises what went wrong."""
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _searched(self) -> SearchResult:
        began = time.monotonic()
        content, graph = self._bench.captured()
        domain = Domain.of(graph, self._job.spec)
        space = self._request.space_of(domain)
        baselines = dict(_baselines(domain))
        with TrialStore(self._request.store) as store:
            study = self._study(store, content, domain)
            tuner = self._tuner(space, store, study)
            self._observer.captured(space, tuple(tuner.trials))
            best = tuner.run({name: fits for name, fits in baselines.items() if isinstance(fits, Strategy)})
        measured = tuple(_baseline(name, fits, tuner.trials) for name, fits in baselines.items())
        duration_s = time.monotonic() - began
        return SearchResult(best, tuple(tuner.trials), measured, study.id, duration_s, self._bench.starts)

    def _tuner(self, space: Space, store: TrialStore, study: Study) -> Tuner:
        request, catalogue = self._request, Catalogue.of(space)
        began, earlier = time.monotonic(), store.trials(study)

        def keep(trial: Trial) -> None:
            store.add(study, trial)
            past_s, here = time.monotonic() - began, len(tuner.trials) - len(earlier)
            left_s = past_s / here * (request.budget.trials - len(tuner.trials))
            self._observer.tried(tuple(tuner.trials), min(left_s, (request.budget.time_s or math.inf) - past_s))

        tuner = Tuner(
            space,
            catalogue,
            request.searcher_of(space, catalogue),
            partial(request.simulator_of, space.domain),
            self._bench,
            request.budget,
            request.plan,
            keep,
            list(earlier),
        )
        return tuner

    def _study(self, store: TrialStore, content: bytes, domain: Domain) -> Study:
        """Where trials are stored: a new study, or the last one like it if that is wanted."""
        fingerprint = domain.graph.fingerprint
        if not self._request.resumes:
            return store.study(content, fingerprint, domain.spec, domain.batch_size, self._job.script.name)
        studies = store.studies()
        for study in reversed(studies):
            if (study.graph, study.spec) == (fingerprint, domain.spec.to_json()):
                return study
        alike = [study for study in studies if study.graph == fingerprint]
        there = f"those of this graph are for other clusters ({_listed(alike)})" if alike else "none is of this graph"
        raise StoreError(
            f"`{store.path}` has no search of this graph on this cluster: {there if studies else 'it is empty'}",
            hint="leave out `--resume`, or give the same script, arguments and cluster as before",
        )


def _listed(studies: Sequence[Study]) -> str:
    return ", ".join(f"study {study.id}" for study in studies)


def _baselines(domain: Domain) -> Iterator[tuple[str, Strategy | str]]:
    """Strategies that users know, by name, or why they don't fit."""
    for name in _BASELINES:
        builder = get(name)
        assert isinstance(builder, StrategyBuilder)
        try:
            strategy = builder.build(domain.graph, domain.spec)
            check(strategy, domain.graph, domain.spec)
        except StrategyError as error:
            yield name, error.message
        else:
            yield name, strategy


def _baseline(name: str, fits: Strategy | str, trials: Sequence[Trial]) -> Baseline:
    if isinstance(fits, str):
        return Baseline(name, why_not=fits)
    return Baseline(name, next((trial for trial in trials if trial.strategy.id == fits.id), None))
