"""The loss from trusting the simulator: strategies that it favours without trials, measured again with the best.

Of each model of the published trials of faster cores, these are measured in rounds: what `auto` chooses, the ten of all
tried strategies that the simulator expects to be the fastest, the five that were measured as the fastest, and those
that users know. One half of the rounds decides which of them is the best, the other half how long it takes, and the
other way around: the fastest of many was also lucky.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from measuring import ROOT, Result, Row, progress, row
from scipy.stats import t as student_t

from autodist.resource_spec import ResourceSpec
from autodist.search import (
    Auto,
    Measurement,
    Study,
    Trial,
    TrialStore,
    floor_of,
    graph_of,
    import_studies,
    known_strategies,
)
from autodist.simulator import Domain, EventSimulator, MeasuredStrategies
from autodist.strategies import Strategy

_TRIALS = ROOT / "benchmarks" / "trials" / "version_2" / "faster"
_CLUSTERS = ("few", "slow")
_FAVOURITES, _FASTEST = 10, 5
_ROUNDS = 4
_MOST_LOST, _MOST_LOST_OF_TEN = 1.05, 1.02
_WANTED = 0.9
"""Of the cases, how many `auto` shall be within the first of these in."""
_TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Case:
    """A model on a cluster, and what was tried of it before.

    Attributes:
        model: The model, as `examples/train_model.py` takes it.
        cluster: The cluster, as `scripts/collect-trials` takes it.
        domain: The graph and the cluster.
        trials: What was measured.
    """

    model: str
    cluster: str
    domain: Domain
    trials: Sequence[Trial]

    def favourites(self) -> list[Strategy]:
        """The strategies that the simulator expects to be the fastest, the first before all."""
        strategies = [trial.strategy for trial in self.trials]
        measured = MeasuredStrategies.of(self.domain, strategies, [0.0] * len(strategies))
        expected = EventSimulator().score(measured.table, self.domain, len(measured))
        return [strategies[place] for place in np.argsort(expected, kind="stable")[:_FAVOURITES]]

    def fastest(self) -> list[Strategy]:
        """The strategies that were measured as the fastest."""
        return [trial.strategy for trial in sorted(self.trials, key=lambda trial: trial.step_s or 0.0)[:_FASTEST]]


@dataclass(frozen=True)
class Again:
    """The strategies of a case, measured again.

    Attributes:
        case: The case.
        times: Seconds of a step by round, by strategy.
        chosen: What `auto` chose.
    """

    case: Case
    times: Mapping[str, Sequence[float]]
    chosen: str

    def measured(self, names: Sequence[str]) -> list[str]:
        """Those of some strategies that could be measured in all rounds."""
        return [name for name in names if name in self.times]

    def lost_by(self, wanted: Sequence[str]) -> float:
        """The time of the best of some strategies, as a multiple of that of the best of all."""
        ratios = [self._best_s(wanted, half) / self._best_s(list(self.times), half) for half in (0, 1)]
        return statistics.geometric_mean(ratios)

    def surely_lost_by(self, wanted: Sequence[str]) -> float:
        """As a multiple of the best's time, the least that the fastest of some takes in 95 of 100 cases."""
        mine, best = (min(names, key=lambda name: _mean_s(self.times[name])) for names in (wanted, self.times))
        logs = np.log(np.array(self.times[mine]) / np.array(self.times[best]))
        error = float(logs.std(ddof=1)) / math.sqrt(len(logs))
        return math.exp(float(logs.mean()) - float(student_t.ppf(0.975, len(logs) - 1)) * error)

    def _best_s(self, names: Sequence[str], half: int) -> float:
        """What the strategy that was the fastest in one half of the rounds takes in the other."""
        best = min(names, key=lambda name: _mean_s(self.times[name][1 - half :: 2]))
        return _mean_s(self.times[best][half::2])


def _mean_s(times: Sequence[float]) -> float:
    return statistics.geometric_mean(times)


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    found: list[Again] = []
    with tempfile.TemporaryDirectory(dir=ROOT) as directory:
        for case in [case for cluster in _CLUSTERS for case in cases_of(cluster)][: 1 if quick else None]:
            progress(f"{case.model} on {case.cluster}")
            found.append(measured_again(case, Path(directory), rounds=2 if quick else _ROUNDS))
    notes = (
        f"times as multiples of the best strategy's, each measured in {_ROUNDS} rounds; two or three emulated hosts",
        "the simulator of events with the constants that AutoDist comes with, and a step without communication",
    )
    return Result("regret", tuple(_rows(found)), notes)


def cases_of(cluster: str) -> Iterator[Case]:
    """The published trials of a cluster, by model."""
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        import_studies(store, _TRIALS / f"{cluster}.zip")
        for model, several in groupby(sorted(store.studies(), key=_model), key=_model):
            yield _case(store, model, cluster, list(several))


def _model(study: Study) -> str:
    return study.label.split()[1]


def _case(store: TrialStore, model: str, cluster: str, studies: Sequence[Study]) -> Case:
    study = studies[0]
    domain = Domain.of(
        graph_of(store, study),
        ResourceSpec.from_json(study.spec),
        batch_size=study.batch_size,
        profile=study.profile,
        floor_s=floor_of(store, studies),
    )
    trials = [trial for one in studies for trial in store.trials(one) if trial.step_s is not None]
    return Case(model, cluster, domain, list({trial.strategy.id: trial for trial in trials}.values()))


def chosen_by_auto(case: Case, directory: Path) -> Strategy:
    """The choice of an `auto` that knows no trials and no profile."""
    store = directory / "empty.db"
    TrialStore(store).close()
    os.environ["AUTODIST_CACHE"] = str(directory / "cache")
    return Auto(trials=str(store)).build(case.domain.graph, case.domain.spec)


def measured_again(case: Case, directory: Path, *, rounds: int, also: Sequence[Strategy] = ()) -> Again:
    """Measure a case's strategies, and what `auto` chooses, in rounds; `also` are further ones."""
    chosen = chosen_by_auto(case, directory)
    wanted = {one.id: one for one in (chosen, *case.favourites(), *case.fastest(), *also)}
    for name, strategy in wanted.items():
        strategy.save(directory / f"{name}.json")
    files = [str(directory / f"{name}.json") for name in wanted]
    known = sum(isinstance(fits, Strategy) for _, fits in known_strategies(case.domain, tiles=True))
    store = directory / f"{case.model}_{case.cluster}.db"
    command = [sys.executable, str(ROOT / "scripts" / "collect-trials"), "--to", str(store)]
    command += ["--models", case.model, "--clusters", case.cluster, "--rounds", f"{rounds}"]
    command += ["--trials", f"{known + len(files)}", "--also", *files]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"measuring {case.model} ended with {ended.returncode}:\n{ended.stderr[-3000:]}")
    return _again(case, store, rounds, chosen.id)


def _again(case: Case, path: Path, rounds: int, chosen: str) -> Again:
    with TrialStore(path) as store:
        trials = [trial for study in store.studies() for trial in store.trials(study)]
    times = {trial.strategy.id: _by_round(trial) for trial in trials}
    return Again(case, {name: one for name, one in times.items() if len(one) == rounds}, chosen)


def _by_round(trial: Trial) -> list[float]:
    return [one.step_s for one in (trial.outcome, *trial.again) if isinstance(one, Measurement)]


def _rows(found: Sequence[Again]) -> Iterator[Row]:
    judged: dict[str, tuple[Callable[[Again], Sequence[str]], float]] = {
        "what `auto` chooses": (lambda one: [one.chosen], _MOST_LOST),
        "the simulator's favourite": (lambda one: [one.case.favourites()[0].id], _MOST_LOST),
        "the best of its ten": (lambda one: [each.id for each in one.case.favourites()], _MOST_LOST_OF_TEN),
    }
    for name, (wanted, most) in judged.items():
        lost = [one.lost_by(one.measured(wanted(one))) for one in found]
        for one, ratio in zip(found, lost, strict=True):
            yield row(f"{one.case.model} on {one.case.cluster}: {name}", [ratio], "x")
        yield row(f"{name}, all", lost, "x", target=most)
        missed = statistics.fmean(ratio > most for ratio in lost)
        surely = statistics.fmean(one.surely_lost_by(one.measured(wanted(one))) > most for one in found)
        yield row(f"{name}: cases beyond {most:g} x", [missed], "", target=1 - _WANTED)
        yield row(f"{name}: cases that are surely beyond it", [surely], "", target=1 - _WANTED)
