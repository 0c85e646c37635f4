"""The strategy that is chosen for users: the fastest one of earlier measurements, or of a simulation."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import warnings
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from autodist import carriers
from autodist.errors import GraphError, SimulatorError, SpaceEmpty, StoreError, StrategyError
from autodist.installation import trials_file, version
from autodist.registry import raise_mistakes
from autodist.resource_spec import ResourceSpec
from autodist.search._baselines import known_strategies
from autodist.search._simulated_ranking import Ranked, ScoringBudget, rank_offline
from autodist.search._verdict import verdict_of
from autodist.search._wary_simulator import WarySimulator
from autodist.search._with_tiles_instead import tiled_to_fit, with_tiles_instead
from autodist.search._without_slowest import without_slowest
from autodist.search.searchers import LocalSearcher
from autodist.search.space import Catalogue, Space, keeps_results, obeys
from autodist.search.store import (
    ExcerptBounds,
    Known,
    Study,
    TrialStore,
    are_alike,
    data_sets,
    floor_of,
    import_studies,
    retargeted,
)
from autodist.simulator import (
    Domain,
    EventSimulator,
    MeasuredStrategies,
    Profile,
    ProfileCache,
    Simulator,
    calibrated,
)
from autodist.strategies import AllReduce, Strategy, StrategyBuilder, check, installed_communicators
from autodist.wording import counted

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.strategies import Communicator, GraphCommunicator

_MARGIN = 0.05
"""The fraction by which a strategy must be expected to be faster than those that users know: simulators err."""
_CAUTION = 0.2
"""The same fraction without trials: simulators err by that much then in the published trials."""
_ENOUGH_TO_CALIBRATE = 12
_VARIABLES = 300_000
_FEWEST, _MOST = 2000, 8000
"""Bounds of how many strategies are scored by default; between them, all together have `_VARIABLES` variables. That
is half a second of work, two for hundreds of variables. It is not a time limit: a busy machine chooses the same."""


@final
@dataclass(frozen=True)
class Auto(StrategyBuilder):
    """The fastest strategy that was measured for the graph on the cluster, else the one that is expected to be.

    Trials of the same graph on the same cluster, or one that differs from it in names alone, decide by themselves.
    Without them strategies are searched for and ranked, those that users know among them, by the event simulation;
    trials of other graphs and clusters calibrate it if there are some. A line says what it chose and why.

    Attributes:
        trials: A trial store, or a file of studies; None takes ``runs/trials.db``, or what
            ``AUTODIST_STORE`` names, where it is there.
        proposals: About how many strategies are ranked; by default more for small graphs than for large ones.
        seed: The seed of random draws.
        online: How many strategies are tried in the first training steps if none was measured before; these steps
            train the model like all others. 1 takes the strategy that is expected to be the fastest.
        over: Names of the carriers that it may choose, separated by spaces: of ``tcp``, ``horovod`` and
            ``collective``. None allows those that the run allows.
        tiles: Whether it may cut large weights over all replicas, as :class:`~autodist.search.tilings.Tiled` does; it
            does not where several strategies are tried.
        groups: Whether replicas may then fall into groups that each have all parts.
    """

    name: ClassVar[str] = "auto"
    file: ClassVar[str | None] = "trials"
    trials: str | None = None
    proposals: int | None = None
    seed: int = 0
    online: int = 1
    over: str | None = None
    tiles: bool = True
    groups: bool = True

    def __post_init__(self) -> None:
        numbers = {"proposals": 1 if self.proposals is None else self.proposals, "online": self.online}
        mistakes = [f"`{name}` is {number}, allowed: at least 1" for name, number in numbers.items() if number < 1]
        if self.over is not None and not (self._over and self._over.issubset(carriers.names())):
            mistakes.append(f"`over` is {self.over!r}, allowed: some of {', '.join(carriers.names())}")
        raise_mistakes(self.name, mistakes)

    @property
    def _over(self) -> frozenset[str]:
        return frozenset(carriers.names() if self.over is None else self.over.split())

    @property
    def chooses(self) -> bool:
        """Yes."""
        return True

    def safer_than(self, strategy: Strategy) -> Auto | None:
        """An `Auto` without groups of replicas, or one that cuts no weights: some steps do not allow these."""
        if self.tiles and self.groups and strategy.groups_of_replicas > 1:
            return replace(self, groups=False)
        return replace(self, tiles=False) if self.tiles and strategy.has_tiles else None

    def confined(self, allowed: Collection[str]) -> Auto:
        """Return one that chooses only carriers that these and its own have in common; itself if there are none."""
        left = self._over.intersection(allowed)
        return self if not left or left == self._over else replace(self, over=" ".join(sorted(left)))

    def carriers(self, installed: Sequence[Communicator]) -> tuple[GraphCommunicator, ...]:
        """Return the fastest, which it will choose on most clusters; what it chooses is not known beforehand."""
        return (next((name for name in installed if name in self._over), installed[0]),)

    @property
    def tries(self) -> int:
        """How many strategies are tried out in the first training steps."""
        return self.online

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Choose; the strategy's ``builder`` says why."""
        return self._chosen(graph, spec)[0]

    def candidates(self, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        """The fastest measured strategy alone; else the best of those that are expected to be fast."""
        return self._chosen(graph, spec)[: self.online]

    def _chosen(self, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy, ...]:
        if len(spec.replicas) == 1:
            return (AllReduce().build(graph, spec),)  # there is nothing to synchronize
        try:
            with self._store() as store:
                measured, why_not = self._measured(store, graph, spec)
                return self._expected(store, graph, spec, why_not) if measured is None else (measured,)
        except (GraphError, StoreError) as error:
            if self.trials is not None:
                raise
            warnings.warn(f"{error.message}; the strategy is chosen without trials", stacklevel=2)
        with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as empty:
            return self._expected(empty, graph, spec)

    # What was measured -------------------------------------------------------------------------------------------

    def _measured(self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> tuple[Strategy | None, str]:
        """The best strategy of the largest search; or None, and why the known trials don't decide.

        A large search has more to choose from than one that was broken off. Trials don't decide if newer plans may be
        faster.
        """
        found, why_not = [], []
        carrier = next((name for name in installed_communicators() if name in self._over), None)
        for study in _studies_here(store, graph, spec):
            for one in self._fastest(store, study, graph, spec):
                if one.version != version():
                    why_not.append(f"study {study.id} was measured by {one.version or 'an older version'}")
                elif carrier is not None and carrier not in store.carriers(study):
                    why_not.append(f"study {study.id} has no trial over {carrier}")
                else:
                    found.append(one)
        if not found:
            return None, "; ".join(why_not)
        best = max(found, key=lambda one: (one.of, one.study))
        why = f"the fastest that was measured, {1e3 * best.step_s:.3g} ms per step, in study {best.study}"
        return replace(best.strategy, builder=f"auto: {why}"), ""

    def _fastest_elsewhere(self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> dict[str, Strategy]:
        """The fastest strategies for the graph on other clusters of as many hosts, by name."""
        several = [
            study
            for study in _studies_of(graph, store)
            if len(ResourceSpec.from_json(study.spec).hosts) == len(spec.hosts)
        ]
        found = (one for study in several for one in self._fastest(store, study, graph, spec))
        return {f"the fastest of study {one.study}": one.strategy for one in found}

    def _fastest(self, store: TrialStore, study: Study, graph: TrainingGraph, spec: ResourceSpec) -> list[_Fastest]:
        """The fastest trial that trains as one device does and obeys the study's rules; empty if there is none."""
        there, known = ResourceSpec.from_json(study.spec), _best_first(store, study)
        disobedient: list[_Fastest] = []
        others = 0
        for one in known:
            [trial] = store.trials(study, [one.number])  # one by one: large ones take a while to read
            if not keeps_results(trial.strategy):
                others += 1
                continue
            strategy = retargeted(trial.strategy, there, spec)
            if not self._fits(strategy, graph, spec):
                continue
            found = _Fastest(strategy, one.step_s, study.id, len(known) - others, one.version)
            if obeys(trial.strategy, study.rules):
                return [found]
            disobedient.append(found)
        return disobedient[:1]

    def _fits(self, strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> bool:
        """Whether a strategy can be used on this cluster, with all devices."""
        if set(strategy.graph.replicas) != {device.name for device in spec.replicas}:
            return False
        if not self._over.issuperset(strategy.carriers):
            return False
        try:
            check(strategy, graph, spec)
        except StrategyError:  # Horovod is not here, or it is of another version
            return False
        return True

    @contextlib.contextmanager
    def _store(self) -> Iterator[TrialStore]:
        """The store with the trials, empty if there are none; a file of studies is read into a temporary store."""
        path = Path(self.trials if self.trials is not None else trials_file())
        if not path.is_file() and self.trials is not None:
            raise StoreError(f"there are no trials in `{path}`", hint="make some by `autodist search`")
        is_store = path.is_file() and not zipfile.is_zipfile(path)
        with (
            tempfile.TemporaryDirectory() as directory,
            TrialStore(path if is_store else Path(directory, "trials.db")) as store,
        ):
            if path.is_file() and not is_store:
                import_studies(store, path)
            yield store

    # What is expected --------------------------------------------------------------------------------------------

    def _expected(
        self, store: TrialStore, graph: TrainingGraph, spec: ResourceSpec, why_not: str = ""
    ) -> tuple[Strategy, ...]:
        """The strategies that are worth a try, the best first; those that users know alternate with others."""
        domain = Domain.of(graph, spec, profile=_profile(store, graph), floor_s=_floor_s(store, graph, spec))
        advice = self._advice(_lessons(store, graph, spec))
        space = Space(domain, allowed=self._over)
        searcher = LocalSearcher(space, Catalogue.of(space), self.seed)
        known = {name: fits for name, fits in known_strategies(domain) if isinstance(fits, Strategy)}
        baselines = {name: fits for name, fits in known.items() if self._over.issuperset(fits.carriers)}
        baselines = {**self._fastest_elsewhere(store, graph, spec), **baselines}  # the first name of a strategy is told
        may_tile = self.tiles and self.online == 1  # training continues from one to the next
        too_large = ""
        if may_tile and not baselines:
            tiled_ones, too_large = tiled_to_fit(domain)
            baselines = {name: s for name, s in tiled_ones.items() if self._over.issuperset(s.carriers)}
        budget = ScoringBudget(self._proposals_for(domain))
        try:
            ranking = rank_offline(searcher, WarySimulator(advice.simulator), budget, baselines)
        except SpaceEmpty as error:
            raise SpaceEmpty("; ".join(filter(None, (error.message, too_large))), hint=error.hint) from error
        source = "; ".join(filter(None, (advice.source, f"profile: {domain.profile.source}", why_not)))
        of = ranking.scored + len(baselines)
        places = {id(one): place for place, one in enumerate(ranking.ranked, 1)}
        ordered = _by_turns(_unlike(ranking.ranked), advice.margin)
        # A strategy that users know is taken although others are expected to be a little faster.
        near = {
            id(one): f" and within {100 * advice.margin:.0f} % of the fastest,"
            for one in ordered[:1]
            if one.is_baseline
        }
        said = [(one, places[id(one)], near.get(id(one), "") if places[id(one)] > 1 else "") for one in ordered]
        told = tuple(
            replace(one.strategy, builder=f"auto: {_name(one)}, expected to be number {place} of {of}{so} by {source}")
            for one, place, so in said
        )
        given = told[0], domain, advice.simulator, advice.margin
        tiled = with_tiles_instead(*given, may_group=self.groups) if may_tile else None
        if tiled is not None:
            why = f"auto: {tiled.builder}, expected to be faster than the best of {of} by {source}"
            told = replace(tiled, builder=why), *told
        hint = without_slowest(told[0], domain, advice.simulator)
        return replace(told[0], builder=told[0].builder + hint), *told[1:]

    def _proposals_for(self, domain: Domain) -> int:
        by_size = _VARIABLES // max(1, len(domain.variables))
        return min(max(by_size, _FEWEST), _MOST) if self.proposals is None else self.proposals

    def _advice(self, sets: Sequence[MeasuredStrategies]) -> _Advice:
        count = sum(map(len, sets))
        if count >= _ENOUGH_TO_CALIBRATE:
            return _Advice(
                calibrated(EventSimulator(), sets), f"the event simulation, calibrated by {counted(count, 'trial')}"
            )
        return _Advice(EventSimulator(), "the event simulation; no trials are known", _CAUTION)


@dataclass(frozen=True)
class _Advice:
    """The simulator that ranks, the source of its knowledge, and the margin by which others must beat known ones."""

    simulator: Simulator
    source: str
    margin: float = _MARGIN


@dataclass(frozen=True)
class _Fastest:
    """The fastest trial of a study that can be used here, and the number of its trials."""

    strategy: Strategy
    step_s: float
    study: int
    of: int
    version: str


def _studies_of(graph: TrainingGraph, store: TrialStore) -> list[Study]:
    return [study for study in store.studies() if study.graph == graph.step_id]


def _studies_here(store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> list[Study]:
    """The studies with the same batch size, on this cluster or one that differs only in names."""
    return [
        study
        for study in _studies_of(graph, store)
        if graph.batch_size in (None, study.batch_size) and are_alike(ResourceSpec.from_json(study.spec), spec)
    ]


def _best_first(store: TrialStore, study: Study) -> list[Known]:
    """The measured trials: the search's best, then others that were measured again, then the rest."""
    known = sorted(store.measured(study), key=lambda one: (not one.is_confirmed, one.step_s))
    again = [one.number for one in known if one.is_confirmed]
    verdict = verdict_of(store.trials(study, again), study.rules)
    return sorted(known, key=lambda one: verdict is None or one.number != verdict.best.number)


def _lessons(store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> list[MeasuredStrategies]:
    """Trials to learn from within seconds: some of each data set, those most like what is asked for first."""

    def unlike(study: Study) -> tuple[bool, bool, int]:
        other_size = len(ResourceSpec.from_json(study.spec).hosts) != len(spec.hosts)
        return study.graph != graph.step_id, other_size, -study.id

    studies = sorted(store.studies(), key=unlike)
    return [data.measured for data in data_sets(store, studies, ExcerptBounds().share)]


def _profile(store: TrialStore, graph: TrainingGraph) -> Profile | None:
    """The graph's profile, if there was a search of it on another cluster, or if `autodist profile` made one."""
    found = [study.profile for study in _studies_of(graph, store) if study.profile is not None]
    if found:
        return found[-1]
    with contextlib.suppress(SimulatorError):  # a damaged file in the cache: an estimate is enough
        return ProfileCache.of_user().newest(graph)
    return None


def _floor_s(store: TrialStore, graph: TrainingGraph, spec: ResourceSpec) -> float | None:
    """Seconds of a step in which all workers compute and none communicates, if a search here has measured them."""
    return floor_of(store, _studies_here(store, graph, spec))


def _name(ranked: Ranked) -> str:
    return f"`{ranked.origin}`" if ranked.is_baseline else f"found, {ranked.strategy.mixture}"


def _unlike(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The strategies, each once; of several that are the same, the first that users know."""
    known = {one.strategy.id for one in ranked if one.is_baseline}
    found: dict[str, Ranked] = {}
    for one in ranked:
        if one.is_baseline or one.strategy.id not in known:
            found.setdefault(one.strategy.id, one)
    return list(found.values())


def _by_turns(ranked: Sequence[Ranked], margin: float) -> list[Ranked]:
    """Strategies that users know and found ones, alternating; a found one is first if it is better by the margin."""
    known, found = ([one for one in ranked if one.is_baseline is is_known] for is_known in (True, False))
    is_better = not known or (found and found[0].predicted_s < (1 - margin) * known[0].predicted_s)
    first, second = (found, known) if is_better else (known, found)
    pairs = itertools.zip_longest(first, second)
    return [one for pair in pairs for one in pair if one is not None]
