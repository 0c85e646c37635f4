"""What the searchers find with equal effort: if the simulator is right, and if it is wrong.

The graphs are those of `examples/models` in their small sizes, the clusters those of `scripts/collect-trials`. How long
the computation takes is estimated: once for CPUs, and once a tenth of it, as accelerators would need, so that it does
not hide what is searched for.

A right simulator: the best score of 3,000 proposals by the event simulation. A wrong one: whole searches, in which one
simulator proposes and another one takes the place of the cluster. Times are not measured; the figures are the same on
any machine, but for the draws of another version of NumPy.

    python benchmarks/searchers.py      # all cases of wrong simulators and three seeds of each: an hour
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from measuring import Result, Row, progress
from training_steps import example_graph

from autodist.errors import StrategyError
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import SEARCHERS, Catalogue, Measurement, SearchBudget, Searcher, Space, Tuner
from autodist.simulator import AnalyticSimulator, Calibration, Domain, EventSimulator, Profile, Simulator
from autodist.strategies import Strategy, check, get

_MODELS = ("vgg", "bert_3", "ncf_sparse", "resnet", "lstm")
_CLUSTERS: Mapping[str, tuple[float, ...]] = {"alike": (1, 1, 1), "slow": (1, 1, 0.25), "few": (5, 5)}
_SPEEDS = (1.0, 10.0)
_EFFORT = 3000
_SEEDS = 3
_MARKS = (20, 50, 200)
_NOISE = 0.02
_BASELINES = (
    "AllReduce(communicator='horovod')", "AllReduce(communicator='collective')", "PSLoadBalancing", "PartitionedPS",
    "Parallax",
)  # fmt: skip
_SLOW_MESSAGES = EventSimulator(Calibration(message_s=2e-3, horovod_s=5e-3, update_s_per_byte=5e-9))
_SLOW_UPDATES = EventSimulator(Calibration(message_s=5e-3, horovod_s=5e-2, update_s_per_byte=5e-8))
_MISLED: Mapping[str, tuple[Simulator, Simulator]] = {
    "formulas instead of events": (AnalyticSimulator(), EventSimulator()),
    "messages ten times slower than thought": (EventSimulator(), _SLOW_MESSAGES),
    "messages and updates thought far too slow": (_SLOW_UPDATES, EventSimulator()),
}


@dataclass(frozen=True)
class Case:
    """A model on a cluster, with a computation so many times faster than that of a CPU."""

    model: str
    cluster: str
    speed: float

    def __str__(self) -> str:
        return f"{self.model}, {self.cluster}" + (f", {self.speed:g} x faster" if self.speed > 1 else "")


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    if quick:
        return _result([Case("ncf_sparse", "slow", 1.0)], [Case("ncf_sparse", "slow", 1.0)], 1, (20,))
    models = ("bert_3", "ncf_sparse")
    misled = [Case(model, cluster, 10.0) for model in models for cluster in ("slow", "few")]
    return _result(_cases(_MODELS), misled, 1, _MARKS)


def _cases(models: Iterable[str]) -> list[Case]:
    return [Case(model, cluster, speed) for model in models for cluster in _CLUSTERS for speed in _SPEEDS]


def _result(right: Sequence[Case], misled: Sequence[Case], seeds: int, marks: Sequence[int]) -> Result:
    rows = [*_right(right), *(row for name in _MISLED for row in _wrong(name, misled, seeds, marks))]
    notes = (
        "ratios of what searchers found, the median and the quartiles over cases; below 1, the first one's is faster",
        f"right simulator: {_EFFORT} proposals, means of {_SEEDS} seeds",
        f"wrong simulators: {len(misled)} cases, means of {seeds} seeds",
    )
    return Result("searchers", tuple(rows), notes)


# A simulator that is right -------------------------------------------------------------------------------------------


def _right(cases: Sequence[Case]) -> Iterator[Row]:
    scores = {case: {searcher.name: _best_score(case, searcher) for searcher in SEARCHERS} for case in cases}
    for other in ("random", "genetic"):
        ratios = [found["local"] / found[other] for found in scores.values()]
        yield _row(f"right simulator: local against {other}", ratios, target=1.0)
        yield _row(f"right simulator: worst case of local against {other}", [max(ratios)])


def _best_score(case: Case, searcher: type[Searcher]) -> float:
    progress(f"searchers: {case}, {searcher.name}")
    space, catalogue = _space(case)

    def score(proposals: Any) -> Any:
        return EventSimulator().score(proposals.table, space.domain, len(proposals))

    found = [searcher(space, catalogue, seed).ask(score, _EFFORT, 200).scores[0] for seed in range(_SEEDS)]
    return float(np.mean(found))


# A simulator that is wrong -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SimulatedBench:
    """Measures by a simulator, with some noise."""

    truth: Simulator
    domain: Domain

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement:
        noise = np.random.default_rng(int(strategy.id, 16)).lognormal(0, _NOISE)
        return Measurement((float(self.truth.predict([strategy], self.domain)[0] * noise),))


def _wrong(name: str, cases: Sequence[Case], seeds: int, marks: Sequence[int]) -> Iterator[Row]:
    found = {searcher: [_best_steps(name, case, searcher, seeds, marks) for case in cases] for searcher in SEARCHERS}
    by_name = {searcher.name: np.array(steps) for searcher, steps in found.items()}
    for place, mark in enumerate(marks):
        for other in ("random", "genetic"):
            ratios = (by_name["local"] / by_name[other])[:, place].tolist()
            yield _row(f"{name}: after {mark} trials, local against {other}", ratios)


def _best_steps(name: str, case: Case, searcher: type[Searcher], seeds: int, marks: Sequence[int]) -> tuple[float, ...]:
    """The fastest step after so many trials, without the noise; means over the seeds."""
    progress(f"searchers: {name}, {case}, {searcher.name}")
    simulator, truth = _MISLED[name]
    space, catalogue = _space(case)
    found = []
    for seed in range(seeds):
        bench = _SimulatedBench(truth, space.domain)
        tuner = Tuner(
            space, catalogue, searcher(space, catalogue, seed), lambda _: simulator, bench, SearchBudget(max(marks))
        )
        tuner.run(dict(_baselines(space.domain)))
        steps = truth.predict([trial.strategy for trial in tuner.trials], space.domain)
        best = np.minimum.accumulate(steps)
        found.append([best[min(mark, len(best)) - 1] for mark in marks])
    return tuple(np.mean(found, 0).tolist())


def _baselines(domain: Domain) -> Iterator[tuple[str, Strategy]]:
    for name in _BASELINES:
        try:
            strategy = get(name).build(domain.graph, domain.spec)
            check(strategy, domain.graph, domain.spec)
        except StrategyError:
            continue
        yield name, strategy


# Graphs and clusters -------------------------------------------------------------------------------------------------


@cache
def domain_of(case: Case, rates: tuple[float, ...]) -> Domain:
    """The domain of a case, on hosts with links of so many Gbit/s."""
    graph = example_graph(case.model)
    hosts = [Host(f"h{n}", f"h{n}", bandwidth_gbps=rate) for n, rate in enumerate(rates, 1)]
    profile = Profile.estimate(graph, graph.batch_size or 1)
    # A profile of a smaller batch is shorter; called that of the whole batch, it is that of a faster device.
    faster = dataclasses.replace(profile.scaled(profile.batch_size / case.speed), batch_size=profile.batch_size)
    return Domain.of(graph, ResourceSpec(tuple(hosts)), profile=faster)


@cache
def _space(case: Case) -> tuple[Space, Catalogue]:
    space = Space(domain_of(case, _CLUSTERS[case.cluster]), communicators=("horovod", "collective"))
    return space, Catalogue.of(space)


def _row(name: str, ratios: Sequence[float], target: float | None = None) -> Row:
    low, median, high = (ratios * 3)[:3] if len(ratios) < 2 else statistics.quantiles(ratios, n=4, method="inclusive")
    return Row(name, median, low, high, "x", target=target)


if __name__ == "__main__":
    for line in _result(_cases(_MODELS), [case for case in _cases(_MODELS) if case.speed > 1], _SEEDS, _MARKS).rows:
        print(f"{line.name}: {line.value:.3f} ({line.low:.3f} to {line.high:.3f})")
