"""A search from the script to the file of the best strategy."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from autodist.errors import SearchFailed, StoreError, StrategyError, UsageError
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.search import (
    ASPECTS,
    SEARCHERS,
    UTILITIES,
    Catalogue,
    Measurement,
    Rule,
    SearchBudget,
    Searcher,
    SearchPlan,
    Space,
    Study,
    Time,
    Trial,
    TrialStore,
    Tuner,
    claim,
    hardware_of,
    known_strategies,
    utility_of,
)
from autodist.simulator import (
    LEARNED,
    AnalyticSimulator,
    Domain,
    EventSimulator,
    IndifferentSimulator,
    LearnedSimulator,
    MeasuredStrategies,
    Profile,
    ProfileCache,
    Simulator,
    load_simulator,
    trained,
)
from autodist.strategies import Strategy, StrategyLike, get
from autodist.tuning._measurer import LaunchedMeasurer
from autodist.tuning._pace import Pace
from autodist.tuning._profiling import find_profile
from autodist.tuning._search_result import Baseline, SearchObserver, SearchResult
from autodist.tuning._served import served
from autodist.tuning._turns import TrialSchedule

SIMULATORS: Mapping[str, Callable[[], Simulator]] = {
    EventSimulator.name: EventSimulator,
    AnalyticSimulator.name: AnalyticSimulator,
    **LEARNED,
    IndifferentSimulator.name: IndifferentSimulator,
}
"""Simulators that a search may choose by, by name."""

_ENOUGH_TO_LEARN = 12
"""Measured trials that simulators learn from; before, formulas keep their first constants, and simulators that have
learned nothing leave the choice to the event simulation."""
_LABEL_LENGTH = 80


@dataclass(frozen=True)
class SearchRequest:
    """The settings of a search.

    Attributes:
        store: Where trials are kept.
        budget: When the search ends.
        schedule: How a trial goes.
        plan: How proposals become trials.
        searcher: Name of the searcher.
        simulator: Name of the simulator, or the file of one that has learned from other trials.
        rules: What is pinned and forbidden.
        also: Strategies to measure besides those that every search measures: named as by ``--strategy``, or objects.
        allowed: Names of aspects that are searched only if they are asked for, and are to be searched as well.
        resumes: Whether to take up the last search of the same graph on the same cluster.
        may_resume: Whether to do so if there is one, and else to begin one.
        adds: Whether the budget's trials are besides those of an earlier search that is taken up.
        seed: Seed of what the searcher draws.
        profiles: Where the step's profile is, or is kept once it was measured; None for an estimate.
        utility: Name of the quantity in which the best is best.
        carriers: What may carry values; None for all.
        is_guided: Whether servers and groups are drawn by algorithms 9 and 10.
        is_stopped: Asked before each measurement; once it returns True, the search ends.

    Raises:
        UsageError: There is no such searcher, simulator, aspect, utility or strategy; all mistakes at once.
    """

    store: Path
    budget: SearchBudget = field(default_factory=SearchBudget)
    schedule: TrialSchedule = field(default_factory=TrialSchedule)
    plan: SearchPlan = field(default_factory=SearchPlan)
    searcher: str = "random"
    simulator: str = "events"
    rules: tuple[Rule, ...] = ()
    also: tuple[StrategyLike, ...] = ()
    allowed: tuple[str, ...] = ()
    resumes: bool = False
    may_resume: bool = False
    adds: bool = False
    seed: int = 0
    profiles: ProfileCache | None = None
    utility: str = Time.name
    carriers: frozenset[str] | None = None
    is_guided: bool = True
    is_stopped: Callable[[], bool] = lambda: False

    def __post_init__(self) -> None:
        simulators = [*SIMULATORS, *([self.simulator] if self._is_file else ["a file of `autodist simulator fit`"])]
        mistakes = [
            *_unknown("searcher", [self.searcher], [searcher.name for searcher in SEARCHERS]),
            *_unknown("simulator", [self.simulator], simulators),
            *_unknown("utility", [self.utility], list(UTILITIES)),
            *_unknown("aspect", self.allowed, [aspect.name for aspect in ASPECTS if not aspect.is_searched]),
            *_no_strategies(self.also),
        ]
        if mistakes:
            raise UsageError("\n".join(mistakes))

    @property
    def not_simulated(self) -> tuple[str, ...]:
        """Names of the allowed aspects that simulators know nothing about."""
        return tuple(aspect.name for aspect in ASPECTS if aspect.name in self.allowed and not aspect.is_simulated)

    def space_of(self, domain: Domain) -> Space:
        """The space of strategies to search.

        Raises:
            SpaceEmpty: It has no strategy.
        """
        aspects = [aspect for aspect in ASPECTS if aspect.is_searched or aspect.name in self.allowed]
        return Space(domain, self.rules, aspects=aspects, allowed=self.carriers, is_guided=self.is_guided)

    def searcher_of(self, space: Space, catalogue: Catalogue) -> Searcher:
        """The searcher for a space."""
        [kind] = [searcher for searcher in SEARCHERS if searcher.name == self.searcher]
        return kind(space, catalogue, self.seed)

    def simulator_of(self, domain: Domain, trials: Sequence[Trial]) -> Simulator:
        """The simulator after some trials: it has learned from them if it can, or is calibrated by them.

        Raises:
            SimulatorError: It is in a file that can't be read.
        """
        simulator = load_simulator(self.simulator) if self._is_file else SIMULATORS[self.simulator]()
        known = [(trial.strategy, trial.step_s) for trial in trials if trial.step_s is not None]
        if isinstance(simulator, LearnedSimulator):
            simulator.seed = self.seed
            if len(known) < _ENOUGH_TO_LEARN:
                return simulator if simulator.learned else EventSimulator()
        if len(known) < _ENOUGH_TO_LEARN:
            return simulator
        return trained(
            simulator, [MeasuredStrategies.of(domain, [s for s, _ in known], [step_s for _, step_s in known])]
        )

    def check_files(self) -> None:
        """Read what is there already, before anything is launched for it.

        Raises:
            SimulatorError: The simulator is in a file that can't be read.
            StoreError: The trial store can't be read.
        """
        if self._is_file:
            load_simulator(self.simulator)
        if self.store.exists():
            TrialStore(self.store).close()

    @property
    def _is_file(self) -> bool:
        return self.simulator.endswith(".npz")


def _unknown(what: str, given: Sequence[str], allowed: Sequence[str]) -> Iterator[str]:
    for name in given:
        if name not in allowed:
            yield f"there is no {what} `{name}`, allowed: {', '.join(allowed)}"


def _no_strategies(given: Iterable[StrategyLike]) -> Iterator[str]:
    for one in given:
        try:
            get(one)
        except StrategyError as error:
            yield error.message


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
        SpaceEmpty: The rules leave nothing, or nothing fits into the hosts' memory.
        SimulatorError: The simulator is in a file that can't be read.
        StoreError: The store can't be used, or has nothing to take up.
        UsageError: The cheapest is wanted and hosts have no price, or rules name no variable or no choice.
    """
    utility_of(request.utility, job.spec)
    request.check_files()
    measurer = LaunchedMeasurer(launcher, job, request.schedule)
    return served(measurer, _Session(request, job, measurer, observer).run, "autodist search")


class _Session:
    """The search alongside the launching."""

    def __init__(self, request: SearchRequest, job: Job, measurer: LaunchedMeasurer, observer: SearchObserver) -> None:
        self._request = replace(request, carriers=job.permission.carriers)
        self._job = job
        self._measurer = measurer
        self._observer = observer

    def run(self) -> SearchResult:
        """Search."""
        began = time.monotonic()
        content, graph = self._measurer.captured()
        cache = self._request.profiles
        profile = None if cache is None else find_profile(self._measurer, graph, cache, self._observer.noticed)
        floor = self._floor()
        floor_s = None if floor is None else floor.step_s
        domain = Domain.of(graph, self._job.spec, profile=profile, floor_s=floor_s)
        space = self._request.space_of(domain)
        baselines = dict(self._known(domain))
        with TrialStore(self._request.store) as store, contextlib.ExitStack() as claimed:
            earlier = self._earlier(store, domain, claimed)
            if earlier is not None:
                study, space = self._taken_up(store, earlier, space, profile)
            else:
                study = self._begun(store, content, space, profile, claimed)
            if floor is not None:
                store.add_floor(study, floor)
            tuner = self._tuner(space, store, study)
            self._observer.captured(space, tuple(tuner.trials))
            try:
                tuner.run({name: fits for name, fits in baselines.items() if isinstance(fits, Strategy)})
            except SearchFailed as error:
                error.study = study.id
                raise
        measured = tuple(_baseline(name, fits, tuner.trials) for name, fits in baselines.items())
        duration_s = time.monotonic() - began
        starts, batch_size = self._measurer.starts, domain.batch_size
        return SearchResult(tuner.verdict, tuple(tuner.trials), measured, study.id, duration_s, starts, batch_size)

    def _floor(self) -> Measurement | None:
        """The time of a step in which all workers compute and none communicates; None if that can't be measured."""
        found = self._measurer.floor()
        if isinstance(found, Measurement):
            self._observer.noticed(f"without communication: {1e3 * found.step_s:.3g} ms per step, all workers at once")
            return found
        self._observer.noticed(f"the step without communication could not be measured: {found.headline}")
        return None

    def _known(self, domain: Domain) -> Iterator[tuple[str, Strategy | str]]:
        """Strategies that users know, by name; or why they are not tried."""
        for name, fits in known_strategies(domain, tiles=True, also=self._request.also):
            refused = self._job.permission.why_not(fits) if isinstance(fits, Strategy) else ""
            yield name, refused or fits

    def _tuner(self, space: Space, store: TrialStore, study: Study) -> Tuner:
        request, catalogue = self._request, Catalogue.of(space)
        pace, earlier = Pace(request.budget.time_s), store.trials(study)
        budget = replace(request.budget, trials=request.budget.trials + request.adds * len(earlier))

        def keep(trial: Trial) -> None:
            store.add(study, trial)
            if trial.again and tuner.again_left:
                left_s = pace.again(tuner.again_left)
                self._observer.again(tuple(tuner.trials), left_s)
            elif not trial.again:
                left_s = pace.ended(budget.trials - len(tuner.trials), tuner.run_off_s)
                self._observer.tried(tuple(tuner.trials), left_s)

        tuner = Tuner(
            space,
            catalogue,
            request.searcher_of(space, catalogue),
            partial(request.simulator_of, space.domain),
            self._measurer,
            budget,
            request.plan,
            keep,
            utility_of(request.utility, space.domain.spec),
            list(earlier),
            request.is_stopped,
        )
        return tuner

    def _begun(
        self, store: TrialStore, content: bytes, space: Space, profile: Profile | None, claimed: contextlib.ExitStack
    ) -> Study:
        """A new study."""
        domain = space.domain
        about = domain.graph.step_id, domain.spec, domain.batch_size, _label(self._job)
        while True:
            study = store.study(content, *about, space.rules, profile)
            held = claim(store.path, study.id)
            if held is not None:  # else a search that looked for one to take up was quicker
                claimed.enter_context(held)
                return study

    def _taken_up(self, store: TrialStore, study: Study, space: Space, profile: Profile | None) -> tuple[Study, Space]:
        """An earlier study, and its space: its rules hold unless others are given."""
        if not space.rules and study.rules:
            space = replace(self._request, rules=study.rules).space_of(space.domain)
        return store.revised(study, space.rules, profile or study.profile), space

    def _earlier(self, store: TrialStore, domain: Domain, claimed: contextlib.ExitStack) -> Study | None:
        """The last study of this graph on this cluster, if one is to be taken up; None if a new one is to begin.

        Raises:
            StoreError: One must be taken up, and there is none, or another search goes on with it.
        """
        if not (self._request.resumes or self._request.may_resume):
            return None
        for study in reversed(store.studies()):
            hardware = hardware_of(ResourceSpec.from_json(study.spec))
            is_same = (study.graph, study.batch_size) == (domain.graph.step_id, domain.batch_size)
            if not is_same or hardware != hardware_of(domain.spec):
                continue
            held = claim(store.path, study.id)
            if held is not None:
                claimed.enter_context(held)
                return study
            if self._request.resumes:
                raise _in_use(store, study)
            self._observer.noticed(f"another search goes on with study {study.id}: this one begins one of its own")
            return None
        if self._request.resumes:
            raise self._nothing_to_resume(store, domain)
        return None

    @staticmethod
    def _nothing_to_resume(store: TrialStore, domain: Domain) -> StoreError:
        studies = store.studies()
        alike = [study for study in studies if study.graph == domain.graph.step_id]
        others = f"those of this graph are for other clusters or batches ({_listed(alike)})"
        there = others if alike else "none is of this graph"
        return StoreError(
            f"`{store.path}` has no search of this graph on this cluster with a batch of {domain.batch_size}: "
            f"{there if studies else 'it is empty'}",
            hint="give `--continue` instead of `--resume`, or the same script, arguments and cluster as before",
        )


def _in_use(store: TrialStore, study: Study) -> StoreError:
    return StoreError(
        f"another search on this machine goes on with study {study.id} of `{store.path}`",
        hint="wait for its end; or give `--continue` instead of `--resume`, which begins a study of its own",
    )


def _label(job: Job) -> str:
    """The searched program, as people type it, cut to a line."""
    text = shlex.join([job.script.name, *job.script_args])
    return text if len(text) <= _LABEL_LENGTH else f"{text[: _LABEL_LENGTH - 1]}…"


def _listed(studies: Sequence[Study]) -> str:
    return ", ".join(f"study {study.id}" for study in studies)


def _baseline(name: str, fits: Strategy | str, trials: Sequence[Trial]) -> Baseline:
    if isinstance(fits, str):
        return Baseline(name, why_not=fits)
    return Baseline(name, next((trial for trial in trials if trial.strategy.id == fits.id), None))
