"""How long the strategy `auto` takes to choose: for a model of ordinary size, and for one of BERT-large's on 16 hosts.

The first has 150 variables on four hosts, all unlike each other, so that nothing is computed once for several; its time
is CPU time. The second is measured without trials; with 1,000 of the same graph on slower links, which it learns from;
and with 1,000 of the same graph on the same cluster, of which it takes the fastest. What `autodist run` takes out of
the trials before it sends them counts as well. The times of the trials are made up by the event simulation, with some
noise: only how many there are counts here.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from bert_large import described_graph
from measuring import Result, Row, progress, row
from tilings import transformer_step

from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.resource_spec import Host, ResourceSpec
from autodist.search import Auto, Catalogue, Measurement, Space, Trial, TrialStore, excerpt, sample
from autodist.simulator import Domain, EventSimulator

_HOSTS = 16
_BATCH_SIZE = 256
_MAX_S = 10.0
_ORDINARY, _ORDINARY_HOSTS, _ORDINARY_MAX_S = 150, 4, 1.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    graph, count = described_graph(), 50 if quick else 1000
    rows = [_ordinary(1 if quick else 5), _traced(2 if quick else 24)]
    rows += [_chosen("no trials", graph, 0, 10.0), *_with_trials(graph, count)]
    return Result("choosing", tuple(rows), (f"{len(graph.variables)} variables, {_HOSTS} hosts",))


def _ordinary(times: int) -> Row:
    variables = tuple(
        Variable(f"v{n}", f"h{n}", (64 + n, 32 + 3 * n), "float32", Role.TRAINABLE, (Gradient(dense=f"g{n}"),))
        for n in range(_ORDINARY)
    )
    graph, spec = TrainingGraph(None, variables, (), (), ()), _cluster(1.0, _ORDINARY_HOSTS)
    taken_s = []
    for _ in range(times):
        began_s = time.process_time()
        Auto().build(graph, spec)
        taken_s.append(time.process_time() - began_s)
    name = f"{_ORDINARY} unlike variables, {_ORDINARY_HOSTS} hosts, CPU time"
    return row(name, taken_s, "s", target=_ORDINARY_MAX_S)


def _traced(layers: int) -> Row:
    """A step with all its nodes, of which `auto` also looks at the operations."""
    graph = transformer_step(layers).with_batch_size(_BATCH_SIZE)
    nodes, began_s = len(graph.graph_def.node), time.process_time()
    Auto().build(graph, _cluster(1.0))
    name = f"a traced step of {nodes:,} nodes, {_HOSTS} hosts, CPU time"
    return row(name, [time.process_time() - began_s], "s", target=_MAX_S)


def _with_trials(graph: TrainingGraph, count: int) -> Iterator[Row]:
    yield _chosen(f"{count} trials on slower links", graph, count, 1.0)
    yield _chosen(f"{count} trials on the same cluster", graph, count, 10.0)


def _chosen(name: str, graph: TrainingGraph, count: int, gbps: float) -> Row:
    progress(f"choosing: {name}")
    with _store(graph, count, _cluster(gbps)) as path:
        began, cpu_began = time.perf_counter(), time.process_time()
        sent = path.with_name("sent.db")  # as `autodist run` does
        with TrialStore(path) as store:
            excerpt(store, sent)
        strategy = Auto(trials=str(sent)).build(graph, _cluster(10.0))
        taken_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
    progress(f"choosing: {cpu_s:.1f} CPU s; {strategy.builder}")
    return row(name, [taken_s], "s", target=_MAX_S)


@contextmanager
def _store(graph: TrainingGraph, count: int, spec: ResourceSpec) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        graph.save(f"{directory}/graph.zip")
        content, path = Path(directory, "graph.zip").read_bytes(), Path(directory, "trials.db")
        with TrialStore(path) as store:
            if count:
                study = store.study(content, graph.step_id, spec, _BATCH_SIZE, "train.py")
                store.add(study, *_trials(graph, count, spec))
        yield path


def _trials(graph: TrainingGraph, count: int, spec: ResourceSpec) -> Iterator[Trial]:
    space = Space(Domain.of(graph, spec, batch_size=_BATCH_SIZE), communicators=("horovod", "collective"))
    catalogue, chance = Catalogue.of(space), np.random.default_rng(0)
    drawn = sample(space, catalogue, count, chance)
    steps_s = EventSimulator().score(drawn.table, space.domain, count) * chance.lognormal(0, 0.05, count)
    for number, step_s in enumerate(steps_s.tolist()):
        strategy = drawn.strategy(number, space, catalogue)
        yield Trial(number, strategy, Measurement((step_s,)), "random")


def _cluster(gbps: float, hosts: int = _HOSTS) -> ResourceSpec:
    return ResourceSpec(tuple(Host(f"h{n}", f"h{n}", bandwidth_gbps=gbps) for n in range(hosts)))
