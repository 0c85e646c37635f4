"""How the step time grows with the number of hosts: 2 to 16 emulated ones, and up to 512 by the simulator.

Each host has a part of the batch of the same size. With one server or a tree's root, time would be proportional to the
number of hosts; what links need at least is at most twice that of two hosts.
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
_MODEL = "vgg"
_EXAMPLES = 4
"""On each host: all of them share two cores."""
_RATE = "100mbit"
_GBPS = 10.0
_BUILDERS = ("AllReduce", "PSLoadBalancing", "PartitionedPS", "auto")
_MOST_GROWTH = 2.5
"""From the fewest to the most hosts; the links' least is twice as long."""


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows = [*_emulated(_EMULATED[:2] if quick else _EMULATED), *_simulated(_SIMULATED[:2] if quick else _SIMULATED)]
    notes = (
        f"emulated: {_MODEL}, {_EXAMPLES} examples per host, {_RATE}, strategy `auto`",
        f"simulated: {_MODEL}, {_GBPS:g} Gbit/s, calibrated by the published trials of three hosts: {_constants()}",
    )
    return Result("scaling", tuple(rows), notes)


def _emulated(counts: tuple[int, ...]) -> Iterator[Row]:
    steps = {}
    for count in counts:
        progress(f"scaling: {count} hosts")
        task = Task(_MODEL, "small", _EXAMPLES * count)
        found = measured_on(Links(count, _RATE), task, ("alone", "autodist"), 3)
        steps[count] = found.seconds["autodist"]
        limits = [max(found.bound_s, alone) for alone in found.seconds["alone"]]
        yield row(f"{count} hosts", [1e3 * s for s in steps[count]], "ms")
        yield ratio_row(f"{count} hosts: against the bound", steps[count], limits, "links or compute")
    first, last = counts[0], counts[-1]
    yield ratio_row(f"{last} hosts against {first}", steps[last], steps[first], f"{first} hosts", _MOST_GROWTH)


def _simulated(counts: tuple[int, ...]) -> Iterator[Row]:
    simulator, graph = _simulator(), example_graph(_MODEL)
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
        return calibrated(EventSimulator(), [one.measured for one in data_sets(store) if _MODEL in one.label])


def _constants() -> str:
    fields = dataclasses.asdict(_simulator().calibration)
    return ", ".join(f"{name} {value:.2g}" for name, value in fields.items())
