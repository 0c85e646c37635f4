"""A search without a cluster: a simulator ranks the strategies, and nothing is measured."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from autodist.errors import SpaceEmpty, UsageError
from autodist.graph import TrainingGraph
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.search import (
    Catalogue,
    Cost,
    Ranked,
    Ranking,
    ScoringBudget,
    Space,
    Utility,
    known_strategies,
    rank_offline,
    smaller_clusters,
    utility_of,
)
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator, Simulator
from autodist.strategies import AllReduce, PSLoadBalancing, Strategy
from autodist.tuning._measured_search import SIMULATORS, SearchRequest
from autodist.tuning._measurer import LaunchedMeasurer
from autodist.tuning._search_result import SearchObserver

OFFLINE_SIMULATORS = (EventSimulator.name, AnalyticSimulator.name)
"""Simulators that know something before anything is measured."""

_SCOUTS = (AllReduce(), PSLoadBalancing())
_SMALLER = 3
_OF_SMALLER = 3


@dataclass(frozen=True)
class OfflineResult:
    """A simulator's expectations.

    Attributes:
        domain: The graph on the whole cluster.
        simulator: The simulator that predicts it.
        utility: The quantity in which the best is best.
        ranking: The best proposals and the baselines; the best may be for some of the hosts alone.
        why_not: By name, baselines that don't fit the graph or the cluster, and why.
        wanted: How many proposals were to be looked at, on all clusters.
        duration_s: Duration of the search.
    """

    domain: Domain
    simulator: str
    utility: Utility
    ranking: Ranking
    why_not: Mapping[str, str]
    wanted: int
    duration_s: float


def offline_simulator(request: SearchRequest) -> Simulator:
    """The simulator of a request, if it can do without trials.

    Raises:
        UsageError: It can't, or no simulator knows what is to be searched.
    """
    name = request.simulator
    if request.not_simulated:
        aspects = " and ".join(f"`{aspect}`" for aspect in request.not_simulated)
        raise UsageError(
            f"simulators can't rank strategies that differ in {aspects}: they assume that all workers wait in a step",
            hint=f"leave {aspects} out, or measure: leave out `--simulate-only`",
        )
    if name.endswith(".npz"):
        raise UsageError(
            f"`--simulate-only` can't go by the file `{name}`, allowed: {', '.join(OFFLINE_SIMULATORS)}",
            hint=f"give `--simulator {OFFLINE_SIMULATORS[0]}`",
        )
    if name not in OFFLINE_SIMULATORS:
        raise UsageError(
            f"the simulator `{name}` knows nothing without measured trials, allowed: {', '.join(OFFLINE_SIMULATORS)}",
            hint=f"give `--simulator {OFFLINE_SIMULATORS[0]}`, or leave out `--simulate-only`",
        )
    return SIMULATORS[name]()


def captured_graph(job: Job, launcher: ClusterLauncher) -> TrainingGraph:
    """Run a script up to its first training step, in one process here, and return the step's graph.

    Where each worker brings a batch of its own, the global batch is that of all workers of the job's cluster.

    Args:
        job: The script and the cluster; the cluster's machines are left alone.
        launcher: Starts the process.

    Raises:
        LaunchError: It could not be started.
        SearchFailed: The script has no training step.
        SearchInterrupted: Ctrl-C.
    """
    measurer = LaunchedMeasurer(launcher, replace(job, spec=ResourceSpec.local(cpus=1)))
    with ThreadPoolExecutor(1) as beside:
        captured = beside.submit(measurer.captured)
        captured.add_done_callback(lambda _: measurer.close())
        measurer.serve()
    _, graph = captured.result()
    if measurer.has_own_batches and graph.batch_size is not None:
        return replace(graph, batch_size=graph.batch_size * job.spec.world_size)
    return graph


def search_offline(
    request: SearchRequest, domain: Domain, budget: ScoringBudget, observer: SearchObserver | None = None
) -> OfflineResult:
    """Search by a simulator alone.

    Where the cheapest is wanted, some smaller clusters within the cluster are searched as well, for the same global
    batch.

    Args:
        request: The clusters to search, the searcher and the simulator, and what is minimized; settings of trials
            are ignored.
        domain: The graph on the cluster.
        budget: How much is looked at, on each cluster; the time is that of all.
        observer: Told what is searched.

    Raises:
        UsageError: For the reasons of :func:`offline_simulator`, or the cheapest is wanted and hosts have no price.
        SpaceEmpty: The rules leave nothing, or nothing fits into the hosts' memory.
    """
    began = time.monotonic()
    simulator = offline_simulator(request)
    utility = utility_of(request.utility, domain.spec)
    space = request.space_of(domain)
    if observer is not None:
        observer.captured(space, ())
    smaller = _worth_a_search(domain, simulator, utility) if utility.name == Cost.name else []
    share = budget if budget.time_s is None else replace(budget, time_s=budget.time_s / (1 + len(smaller)))
    known = dict(known_strategies(domain, also=request.also))
    rankings = [_ranked(request, simulator, space, share, known)]
    for part in smaller:
        with contextlib.suppress(SpaceEmpty):
            of_part = dict(known_strategies(part, also=request.also))
            rankings.append(_ranked(request, simulator, request.space_of(part), share, of_part))
    why_not = {name: fits for name, fits in known.items() if isinstance(fits, str)}
    ranking = _merged(rankings, utility)
    wanted = budget.proposals * (1 + len(smaller))
    return OfflineResult(domain, simulator.name, utility, ranking, why_not, wanted, time.monotonic() - began)


def _ranked(
    request: SearchRequest,
    simulator: Simulator,
    space: Space,
    budget: ScoringBudget,
    known: Mapping[str, Strategy | str],
) -> Ranking:
    searcher = request.searcher_of(space, Catalogue.of(space))
    return rank_offline(searcher, simulator, budget, {n: s for n, s in known.items() if isinstance(s, Strategy)})


def _merged(rankings: Sequence[Ranking], utility: Utility) -> Ranking:
    """All of the first, and the best few of the others, the best first."""

    def value(ranked: Ranked) -> float:
        return utility.of(ranked.strategy, ranked.predicted_s)

    first, *others = rankings
    ranked = [*first.ranked, *(one for other in others for one in other.ranked[:_OF_SMALLER])]
    best = min((ranking.best for ranking in rankings), key=value)
    return Ranking(tuple(sorted(ranked, key=value)), best, sum(ranking.scored for ranking in rankings))


def _worth_a_search(domain: Domain, simulator: Simulator, utility: Utility) -> list[Domain]:
    """The smaller clusters on which strategies that are built quickly are cheapest."""
    found: list[tuple[float, Domain]] = []
    for spec in smaller_clusters(domain.spec):
        part = Domain.of(domain.graph, spec, batch_size=domain.batch_size, profile=domain.profile)
        scouts = [builder.build(domain.graph, spec) for builder in _SCOUTS]
        times = simulator.predict(scouts, part)
        found.append((min(utility.of(s, float(t)) for s, t in zip(scouts, times, strict=True)), part))
    found.sort(key=lambda pair: pair[0])
    return [part for _, part in found[:_SMALLER]]
