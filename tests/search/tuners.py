"""Searches with a simulator in the place of the cluster, and what they begin with."""

import dataclasses

from autodist.search import (
    Catalogue,
    Failure,
    Measurement,
    RandomSearcher,
    SearchBudget,
    SearchPlan,
    Tuner,
)
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator
from autodist.strategies import PSLoadBalancing

SMALL = SearchPlan(proposals=100, qualified=30, batch=4)


@dataclasses.dataclass
class Simulated:
    """Measures by following events; fails where it is told to."""

    domain: Domain
    failing: tuple[int, ...] = ()
    bounds: list[float | None] = dataclasses.field(default_factory=list)

    def measure(self, number, strategy, hopeless_s):
        self.bounds.append(hopeless_s)
        if number in self.failing:
            return Failure("memory", f"no memory for {strategy.id}")
        return Measurement((float(EventSimulator().predict([strategy], self.domain)[0]),))


def tuner(space, bench=None, trials=15, kind=RandomSearcher, **options):
    catalogue = Catalogue.of(space)
    searcher = kind(space, catalogue, seed=1)
    bench = bench or Simulated(space.domain)
    settings = {"budget": SearchBudget(trials), "plan": SMALL, "trials": options.pop("trials_so_far", []), **options}
    simulator = settings.pop("simulator", lambda trials: AnalyticSimulator())
    return Tuner(space, catalogue, searcher, simulator, bench, **settings)


def baselines(space):
    return {"PSLoadBalancing": PSLoadBalancing(communicator="tcp").build(space.domain.graph, space.domain.spec)}


class Lucky:
    """Measures every strategy as fast as it is, but the first time some much faster."""

    def __init__(self, luck, failing=()):
        self.luck, self.failing = luck, failing
        self.measured = []

    def measure(self, number, strategy, hopeless_s):
        if number in self.failing:
            self.measured.append(number)
            return Failure("error", "no")
        first = number not in self.measured
        self.measured.append(number)
        return Measurement((self.luck[number] if first and number in self.luck else 1.0 + 0.01 * number,), 2, 0.1)
