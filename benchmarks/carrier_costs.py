"""What carriers cost besides the bytes' time on links: seconds of each message, and of each byte that processors copy.

Two local workers take steps that compute next to nothing, round by round under each strategy, with the step without
communication beside them. Their links are the machine's memory: what is left are messages and copies. These are the
constants of `autodist.simulator.Calibration`, which stand beside them.
"""

from __future__ import annotations

import statistics
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress, row

from autodist.errors import StrategyError
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.search import Failure
from autodist.simulator import Calibration
from autodist.strategies import AllReduce, PartitionedPS, PSLoadBalancing, Strategy, StrategyBuilder, check
from autodist.tuning import LaunchedMeasurer, TrialSchedule

_HOSTS = 2
_SMALL, _LARGE = 64, 8  # as in the script
_BYTES = _SMALL * 4096 + _LARGE * 4 * 2**20
_CARRIERS = ("tcp", "horovod", "collective")
_HOPS = {"tcp": 2, "horovod": _HOSTS, "collective": _HOSTS}
_ROUNDS, _FEW = 5, 2


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as directory:
        job = Job(SCRIPTS / "carrier_training.py", ResourceSpec.local(workers=_HOSTS), run_dir=Path(directory, "run"))
        bench = LaunchedMeasurer(ClusterLauncher(), job, TrialSchedule(warm_up=5, iterations=20))
        serving = threading.Thread(target=bench.serve)
        serving.start()
        try:
            times = _in_rounds(bench, _FEW if quick else _ROUNDS)
        finally:
            bench.close()
            serving.join()
    return Result(
        "carrier_costs", tuple(_rows(times)), (f"{_HOSTS} local workers, {_BYTES / 1e6:.0f} MB of gradients",)
    )


def _in_rounds(bench: LaunchedMeasurer, rounds: int) -> dict[str, list[float]]:
    """By strategy, the seconds of its step in each round; that without communication under `floor`."""
    _, graph = bench.captured()
    spec = ResourceSpec.local(workers=_HOSTS)
    strategies: dict[str, Strategy] = {}
    for name, builder in _builders().items():
        try:
            strategies[name] = builder.build(graph, spec)
            check(strategies[name], graph, spec)
        except StrategyError as error:
            progress(f"carrier_costs: {name} is left out: {error.message}")
            strategies.pop(name, None)
    times: dict[str, list[float]] = {}
    for number in range(rounds):
        progress(f"carrier_costs: round {number + 1} of {rounds}")
        acts: dict[str, Callable[[], object]] = {"floor": bench.floor}
        acts |= {name: lambda s=s: bench.measure(0, s, None) for name, s in strategies.items()}  # type: ignore[misc]
        for name in acts if number % 2 == 0 else reversed(acts):
            found = acts[name]()
            if isinstance(found, Failure):
                raise RuntimeError(f"{name} has failed: {found.message}")
            times.setdefault(name, []).append(found.step_s)  # type: ignore[attr-defined]
    return times


def _builders() -> Mapping[str, StrategyBuilder]:
    """For each carrier all gradients in one collective, and each in its own; and servers."""
    found: dict[str, StrategyBuilder] = {}
    for carrier in _CARRIERS:
        found[f"{carrier} together"] = AllReduce(chunk_size=1000, communicator=carrier)
        found[f"{carrier} apart"] = AllReduce(chunk_size=1, communicator=carrier)
    return found | {"servers": PSLoadBalancing(communicator="tcp"), "cut": PartitionedPS(communicator="tcp")}


def _rows(times: Mapping[str, list[float]]) -> list[Row]:
    assumed = Calibration()
    message_s = {"tcp": assumed.stream_s, "horovod": assumed.message_s, "collective": assumed.message_s}
    rows = [row("the step without communication", [1e3 * step_s for step_s in times["floor"]], "ms")]
    for carrier in _CARRIERS:
        if f"{carrier} apart" not in times:
            continue
        apart, together = times[f"{carrier} apart"], times[f"{carrier} together"]
        messages = (_SMALL + _LARGE - 1) * _HOPS[carrier]
        each = [1e6 * (a - b) / messages for a, b in zip(apart, together, strict=True)]
        name = f"{carrier}: each message of a collective (assumed: {1e6 * message_s[carrier]:.0f})"
        rows.append(row(name, each, "us"))
        copied = [1e9 * (a - b) / _BYTES for a, b in zip(together, times["floor"], strict=True)]
        rows.append(row(f"{carrier}: each byte of a gradient", copied, "ns"))
    served = [1e9 * (a - b) / _BYTES for a, b in zip(times["servers"], times["floor"], strict=True)]
    rows.append(row("servers: each byte of a value, which comes back", served, "ns"))
    fastest = {name: statistics.median(own) for name, own in times.items() if name != "floor"}
    return [
        *rows,
        *(row(f"step: {name}", [1e3 * s for s in times[name]], "ms") for name in sorted(fastest, key=fastest.get)),
    ]
