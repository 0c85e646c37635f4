"""Searches in which a simulation takes the place of the cluster.

What the steps take is what the event simulation says with the constants that published trials of the same model on the
same cluster give, times what these constants don't explain of a strategy, drawn once for each. The search does not know
these constants: it begins with those that AutoDist comes with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from autodist.search import Catalogue, Measurement, SearchBudget, SearchPlan, Trial, Tuner, known_strategies
from autodist.simulator import Domain, EventSimulator, Simulator, calibrated
from autodist.strategies import Strategy
from autodist.tuning import SearchRequest

from ._trials import measured

__all__ = ["FILES", "RIVALS", "domain_of", "simulated_search"]

FILES = {"slow": "trials/version_2/slow.zip", "few": "trials/version_2/few.zip"}
RIVALS = ("AllReduce(communicator='horovod')", "PSLoadBalancing", "PartitionedPS")
"""Horovod, and who tunes a parameter server by hand."""
_UNEXPLAINED = 0.06
"""One standard deviation: what calibrated simulations err by (docs/evaluation.md)."""


@dataclass(frozen=True)
class _SimulatedBench:
    """Measures by a simulation."""

    truth: Simulator
    domain: Domain

    def measure(self, number: int, strategy: Strategy, hopeless_s: float | None) -> Measurement:
        """The same for the same strategy, whenever it is measured."""
        unexplained = np.random.default_rng(int(strategy.id, 16)).lognormal(0, _UNEXPLAINED)
        return Measurement((float(self.truth.predict([strategy], self.domain)[0] * unexplained),))


def domain_of(model: str, cluster: str) -> Domain:
    """A model of the published trials on a cluster."""
    return measured(FILES[cluster])[model].domain


def simulated_search(
    model: str,
    cluster: str,
    trials: int,
    seed: int,
    *,
    searcher: str = "random",
    simulator: str = "events",
    is_guided: bool = True,
    simulator_of: Callable[[Sequence[Trial]], Simulator] | None = None,
    plan: SearchPlan | None = None,
) -> tuple[list[Trial], float]:
    """Search, and return the trials that were proposed, and the seconds of the better of users' rivals.

    Args:
        model: A model of the published trials.
        cluster: A cluster of these.
        trials: How many strategies are measured, without those that users know.
        seed: Seed of the search.
        searcher: How strategies are proposed.
        simulator: What chooses among them.
        is_guided: Whether servers and groups are drawn by algorithms 9 and 10.
        simulator_of: Makes the simulator after some trials instead.
        plan: How proposals become trials.

    """
    domain, bench = domain_of(model, cluster), _bench(model, cluster)
    request = SearchRequest(Path("nowhere.db"), searcher=searcher, simulator=simulator, is_guided=is_guided, seed=seed)
    space = request.space_of(domain)
    catalogue = Catalogue.of(space)
    known = dict(_rivals(domain))
    tuner = Tuner(
        space,
        catalogue,
        request.searcher_of(space, catalogue),
        simulator_of or (lambda found: request.simulator_of(domain, found)),
        bench,
        SearchBudget(trials + len(known)),
        plan or SearchPlan(hopeless=float("inf")),
    )
    tuner.run(known)
    return tuner.trials[len(known) :], min(bench.measure(0, rival, None).step_s for rival in known.values())


@cache
def _bench(model: str, cluster: str) -> _SimulatedBench:
    data = measured(FILES[cluster])[model]
    return _SimulatedBench(calibrated(EventSimulator(), [data]), data.domain)


def _rivals(domain: Domain) -> Iterator[tuple[str, Strategy]]:
    for name, strategy in known_strategies(domain):
        if name in RIVALS and isinstance(strategy, Strategy):
            yield name, strategy
