"""Trial stores of searches that ran with the event simulation in the place of the cluster."""

import dataclasses
import math
import tempfile
from pathlib import Path

from autodist.report.plots import Searched
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Catalogue, Failure, Measurement, RandomSearcher, SearchBudget, SearchPlan, Space, Tuner
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator
from autodist.strategies import AllReduce, PSLoadBalancing
from tests.strategies.examples import graph, variable

VARIED = SearchPlan(proposals=300, qualified=300, batch=6, alpha=3.0)
GRAPH = graph(
    variable("top/wide/kernel", (4096, 64), order=0),
    variable("top/narrow/kernel", (64, 256), order=1),
    variable("top/narrow/bias", (256,), order=2),
    variable("top/table", (5000, 16), sparse=True, order=3),
)
SPEC = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1 if name == "c" else 1.0) for name in "abc"))


@dataclasses.dataclass
class Simulated:
    """Measures by following events; fails where it is told to."""

    domain: Domain
    failing: tuple[int, ...] = ()

    def measure(self, number, strategy, hopeless_s):
        if number in self.failing:
            return Failure("memory" if number % 2 else "timeout", "too much")
        return Measurement((float(EventSimulator().predict([strategy], self.domain)[0]),))


def content_of(g):
    with tempfile.TemporaryDirectory() as directory:
        g.save(Path(directory, "graph.zip"))
        return Path(directory, "graph.zip").read_bytes()


def add_search(store, *, seed=1, trials=40, failing=(7, 12, 13), g=GRAPH, spec=SPEC, label="train.py", known=True):
    """Search, store the trials, and return the study with them."""
    domain = Domain.of(g, spec, batch_size=64)
    space = Space(domain, communicators=("tcp", "collective"))
    space.families = tuple(family for family in space.families if family.name in ("servers", "collective"))
    study = store.study(content_of(g), g.step_id, spec, 64, label)
    catalogue = Catalogue.of(space)
    tuner = Tuner(
        space, catalogue, RandomSearcher(space, catalogue, seed), lambda trials: AnalyticSimulator(),
        Simulated(domain, failing), SearchBudget(trials), VARIED, lambda trial: store.add(study, trial),
    )  # fmt: skip
    builders = (
        {"PSLoadBalancing": PSLoadBalancing(), "AllReduce(communicator='collective')": AllReduce()} if known else {}
    )
    tuner.run({name: builder.build(g, spec) for name, builder in builders.items()})
    return Searched(study, tuple(store.trials(study)))


def changed(searched, **changes):
    """The same search with trials in which something is different."""
    return dataclasses.replace(
        searched,
        trials=tuple(
            dataclasses.replace(trial, **{name: change(trial) for name, change in changes.items()})
            for trial in searched.trials
        ),
    )


def taking(step_s):
    """An outcome: this many seconds per step."""
    assert math.isfinite(step_s)
    return Measurement((step_s,))
