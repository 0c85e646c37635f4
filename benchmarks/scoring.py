"""How long it takes to propose and score 30,000 strategies for a graph of BERT-large's size on 16 hosts.

391 trainable variables, one of them sparse; half of the proposals cut large variables into up to 32 shards, so a
strategy has 1,800 shards on average. A search does this for each batch of trials, by default with a tenth of the
proposals.

Nearly all of it happens in one thread, so its CPU time is what a free core would need by the clock, whatever else the
machine does.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable

import numpy as np
from bert_large import described_graph
from measuring import Result, Row, progress, row

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Catalogue, LocalSearcher, RandomSearcher, Searcher, Space, sample
from autodist.simulator import (
    AnalyticSimulator,
    Domain,
    EventSimulator,
    LinearSimulator,
    MeasuredStrategies,
    RecurrentSimulator,
    Simulator,
)

_HOSTS = 16
_MAX_S = 15.0
_MAX_MB = 1000.0
_TRIALS = 100
_LEARNED_SHARE = 10  # learned simulators score so many times fewer


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    count = 1000 if quick else 30_000
    began = time.process_time()
    space = Space(Domain.of(described_graph(), _cluster()), communicators=("horovod", "collective"))
    catalogue = Catalogue.of(space)
    rows = [row("the space and its catalogue, once", [time.process_time() - began], "CPU s")]
    for searcher, simulator, target in (
        (RandomSearcher, EventSimulator(), None if quick else _MAX_S),
        (RandomSearcher, AnalyticSimulator(), None if quick else _MAX_S),
        (LocalSearcher, EventSimulator(), None),
    ):
        progress(f"scoring: {searcher.name}, {simulator.name}")
        rows += _asked(searcher(space, catalogue, 0), simulator, count, target)
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    rows.append(row("memory at the peak, all told", [memory_mb], "MB", target=_MAX_MB))
    rows += _learned(space, catalogue, count // _LEARNED_SHARE)
    notes = (
        f"{len(space.units)} variables, {_HOSTS} hosts, {count} proposals of which each search returns 200",
        f"learned simulators score {count // _LEARNED_SHARE}, after learning from {_TRIALS} strategies",
    )
    return Result("scoring", tuple(rows), notes)


def _asked(searcher: Searcher, simulator: Simulator, count: int, target: float | None) -> list[Row]:
    domain = searcher.space.domain
    scoring: list[float] = []

    def score(proposals):
        began = time.process_time()
        scores = simulator.score(proposals.table, domain, len(proposals))
        scoring.append(time.process_time() - began)
        return scores

    total = _cpu_s(lambda: searcher.ask(score, count, 200))
    name = f"{searcher.name}, {simulator.name}"
    return [
        row(f"{name}: propose and score", [total], "CPU s"),
        row(f"{name}: of that, score", [sum(scoring)], "CPU s", target=target),
    ]


def _learned(space: Space, catalogue: Catalogue, count: int) -> list[Row]:
    chance = np.random.default_rng(0)
    known = sample(space, catalogue, _TRIALS, chance)
    step_s = EventSimulator().score(known.table, space.domain, _TRIALS)
    drawn = sample(space, catalogue, count, chance)
    rows: list[Row] = []
    for simulator in (LinearSimulator(), RecurrentSimulator(steps=20)):
        progress(f"scoring: {simulator.name}")
        simulator.fit([MeasuredStrategies(space.domain, known.table, step_s)])
        simulator.score(known.table, space.domain, _TRIALS)
        taken = _cpu_s(lambda simulator=simulator: simulator.score(drawn.table, space.domain, count))
        rows.append(row(f"{simulator.name}: score {count}", [taken], "CPU s"))
    return rows


def _cpu_s(act: Callable[[], object]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


# The cluster -------------------------------------------------------------------------------------------


def _cluster() -> ResourceSpec:
    return ResourceSpec(tuple(Host(f"h{number}", f"h{number}") for number in range(_HOSTS)))
