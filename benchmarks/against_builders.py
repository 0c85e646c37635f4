"""Whether local search, by the event simulation alone, finds what is expected to be faster than what builders make.

The graphs are those of `examples/models` in their small sizes, the clusters those of `scripts/collect-trials` and one
of sixteen hosts, half of them slow. How long the computation takes is estimated: once for CPUs, and once a tenth of it,
as accelerators would need, so that it does not hide what is searched for. Builders are all that are registered, over
every carrier that they take. Nothing is timed; the figures are the same on any machine, but for the draws of another
version of NumPy.
"""

from __future__ import annotations

import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from measuring import Result, Row, progress
from searchers import Case, domain_of

from autodist import carriers
from autodist.errors import StrategyError
from autodist.search import Catalogue, LocalSearcher, ScoringBudget, Space, known_strategies, rank_offline
from autodist.simulator import Domain, EventSimulator
from autodist.strategies import Strategy, builders, check, get

_MODELS = ("vgg", "bert_3", "ncf_sparse", "resnet", "lstm", "ncf_dense", "bert_6", "densenet")
_CLUSTERS: Mapping[str, tuple[float, ...]] = {
    "alike": (1, 1, 1),
    "slow": (1, 1, 0.25),
    "few": (5, 5),
    "eight": (1,) * 8,
    "sixteen": (10,) * 8 + (1,) * 8,
}
_SPEEDS = (1.0, 10.0)
_PROPOSALS = 8000
_NOT_COMPARED = frozenset({"Manual", "Tiled", "auto"})
"""One takes a file; one is tried in the place of what a search has found, and one is what is judged."""
_MOST_NOT_BEATEN = 0.05
_MOST_LOST = 0.01
_ALIKE = 1e-6


@dataclass(frozen=True)
class Found:
    """What was found in a case.

    Attributes:
        case: The case.
        alone_s: The best that local search expects if it knows no builder's strategy.
        search_s: The same as `autodist search --simulate-only` ranks, which begins with those that users know.
        builder: The builder that is expected to be the fastest.
        builder_s: What it is expected to take.

    """

    case: Case
    alone_s: float
    search_s: float
    builder: str
    builder_s: float


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    models, clusters = (("ncf_sparse",), ("slow",)) if quick else (_MODELS, tuple(_CLUSTERS))
    cases = [Case(model, cluster, speed) for model in models for cluster in clusters for speed in _SPEEDS]
    found = [found_in(case) for case in cases]
    for one in found:
        progress(f"{one.case}: {one.alone_s / one.builder_s:.3f}, {one.search_s / one.builder_s:.3f} of {one.builder}")
    notes = (
        f"{len(found)} models on clusters, {_PROPOSALS:,} proposals each; expected step times by the event simulation",
        "ratios of what local search finds to the best that any builder makes; below 1, the search's is faster",
    )
    alone = [one.alone_s / one.builder_s for one in found]
    begun = [one.search_s / one.builder_s for one in found]
    rows = [*_rows("local search alone", alone), *_rows("with strategies that users know", begun)]
    return Result("against_builders", tuple(rows), notes)


def _rows(name: str, ratios: Sequence[float]) -> Iterator[Row]:
    low, median, high = statistics.quantiles(ratios * 2, n=4, method="inclusive")
    yield Row(name, median, low, high, "x", target=1.0)
    worse = statistics.fmean(ratio > 1 + _ALIKE for ratio in ratios)
    yield Row(f"{name}: cases in which a builder is better", worse, worse, worse, "", target=_MOST_NOT_BEATEN)
    alike = statistics.fmean(abs(ratio - 1) <= _ALIKE for ratio in ratios)
    yield Row(f"{name}: cases in which it is as good", alike, alike, alike, "")
    worst = max(ratios)
    yield Row(f"{name}: the worst case", worst, worst, worst, "x", target=1 + _MOST_LOST)


def found_in(case: Case) -> Found:
    """Search in a case, and build what all builders make."""
    domain = domain_of(case, _CLUSTERS[case.cluster])
    simulator = EventSimulator()
    made = dict(_made(domain))
    times = dict(zip(made, simulator.predict(list(made.values()), domain).tolist(), strict=True))
    fastest = min(times, key=times.__getitem__)
    space = Space(domain, communicators=carriers.names())
    catalogue = Catalogue.of(space)
    budget = ScoringBudget(_PROPOSALS)
    alone = rank_offline(LocalSearcher(space, catalogue), simulator, budget)
    known = {name: fits for name, fits in known_strategies(domain) if isinstance(fits, Strategy)}
    begun = rank_offline(LocalSearcher(space, catalogue), simulator, budget, known)
    return Found(case, alone.best.predicted_s, begun.best.predicted_s, fastest, times[fastest])


def _made(domain: Domain) -> Iterator[tuple[str, Strategy]]:
    """What builders make, by name; without those that do not fit."""
    for name in _calls():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                builder = get(name)
                assert not isinstance(builder, Strategy)
                strategy = builder.build(domain.graph, domain.spec)
            check(strategy, domain.graph, domain.spec, available_communicators=carriers.names())
        except StrategyError:
            continue
        yield name, strategy


@cache
def _calls() -> tuple[str, ...]:
    """The calls of all builders, one for each carrier that they take."""
    found: list[str] = []
    for info in builders():
        if info.name in _NOT_COMPARED:
            continue
        found.append(info.name)
        for carrier in carriers.names():
            call = f"{info.name}(communicator={carrier!r})"
            try:
                get(call)
            except StrategyError:  # it has no such parameter
                continue
            found.append(call)
    return tuple(found)
