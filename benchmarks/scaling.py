"""How the step time grows with the number of hosts: 2 to 16 emulated ones, and up to 512 by the simulator.

Each host has a part of the batch of the same size. What links need at least for full gradients is at most twice that of
two hosts; sufficient factors go from everyone to everyone and grow with the hosts, until full gradients are shorter.
Emulated hosts share two cores, so that computation grows with their number as well: it is measured too, afterwards.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from measuring import ROOT, Result, Row, progress, ratio_row, row
from peer_systems import Task
from peers import Links, measured_on
from training_steps import example_graph

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import TrialStore, data_sets, import_studies
from autodist.simulator import Domain, EventSimulator, Profile, calibrated
from autodist.strategies import get

_EMULATED = (2, 4, 8, 16)
_SIMULATED = (2, 8, 32, 128, 512)
_MODELS = ("vgg", "resnet")
_SIMULATED_MODEL = "vgg"
_EXAMPLES = 4
"""On each host: all of them share two cores."""
_RATE = "100mbit"
_GBPS = 10.0
_BUILDERS = ("AllReduce", "PSLoadBalancing", "PartitionedPS", "auto")
_SYSTEMS = ("horovod", "autodist")
_ROUNDS = 3
_MOST_TIME = 1 / 0.97
"""Of Horovod's: slower nowhere, but for noise."""
_MOST_GROWTH = 2.5
"""From the fewest to the most hosts; the links' least is twice as long."""


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    counts = _EMULATED[:2] if quick else _EMULATED
    emulated = [line for model in _MODELS for line in _emulated(model, counts)]
    simulated = _simulated(_SIMULATED[:2] if quick else _SIMULATED)
    notes = (
        f"emulated: small models, {_EXAMPLES} examples per host, {_RATE}, strategy `auto`",
        f"simulated: {_SIMULATED_MODEL}, {_GBPS:g} Gbit/s, calibrated by the published trials of three hosts: "
        f"{_constants()}",
    )
    rows = [*emulated, *simulated]
    return Result("scaling", tuple(rows), notes)


def _emulated(model: str, counts: tuple[int, ...]) -> Iterator[Row]:
    steps = {}
    for count in counts:
        name = f"{model}, {count} hosts"
        progress(f"scaling: {name}")
        links, task = Links(count, _RATE), Task(model, "small", _EXAMPLES * count)
        found = measured_on(links, task, _SYSTEMS, _ROUNDS)
        floor = measured_on(links, task, ("alone",), _ROUNDS)  # not beside them: 48 workers need more than 24 GB
        steps[count] = ours = found.seconds["autodist"]
        limits = [max(floor.bound_s, alone) for alone in floor.seconds["alone"]]
        for system, times in {**floor.seconds, **found.seconds}.items():
            yield row(f"{name}: {system}", [1e3 * s for s in times], "ms")
        yield ratio_row(f"{name}: against Horovod", ours, found.seconds["horovod"], "Horovod", _MOST_TIME)
        yield ratio_row(f"{name}: against the bound", ours, limits, "links or compute")
    first, last = counts[0], counts[-1]
    yield ratio_row(f"{model}, {last} hosts against {first}", steps[last], steps[first], f"{first} hosts", _MOST_GROWTH)


def _simulated(counts: tuple[int, ...]) -> Iterator[Row]:
    simulator, graph = _simulator(), example_graph(_SIMULATED_MODEL)
    for builder in _BUILDERS:
        for count in counts:
            progress(f"scaling: {builder} on {count} simulated hosts")
            spec = ResourceSpec(tuple(Host(f"h{n}", f"h{n}", bandwidth_gbps=_GBPS) for n in range(count)))
            whole = dataclasses.replace(graph, batch_size=(graph.batch_size or 1) * count)
            domain = Domain.of(whole, spec, profile=Profile.estimate(whole, whole.batch_size or 1))
            step_s = simulator.predict([get(builder).build(whole, spec)], domain)[0]
            yield row(f"{builder}, {count} simulated hosts", [1e3 * float(step_s)], "ms")


@cache
def _simulator() -> EventSimulator:
    with tempfile.TemporaryDirectory() as directory, TrialStore(Path(directory, "trials.db")) as store:
        import_studies(store, ROOT / "benchmarks" / "trials" / "slow.zip")
        return calibrated(EventSimulator(), [one.measured for one in data_sets(store) if _SIMULATED_MODEL in one.label])


def _constants() -> str:
    fields = dataclasses.asdict(_simulator().calibration)
    return ", ".join(f"{name} {value:.2g}" for name, value in fields.items())
