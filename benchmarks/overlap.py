"""What the overlap of back-propagation and communication is worth: the same step with it and without.

On two emulated hosts with 1 Gbit/s links, blocks of steps alternate within the same two processes. Without overlap, no
gradient is sent before the last one exists.
"""

from __future__ import annotations

import json

from measuring import Result, Row, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_STRATEGIES = (
    "PSLoadBalancing()",
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='horovod')",
)
_RATE = "1gbit"
_TIMEOUT_S = 150.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with EmulatedCluster(2, _RATE) as cluster:
        for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
            progress(f"overlap: {strategy}")
            times = _times(cluster, strategy, rounds=3 if quick else 7)
            rows += [
                row(f"{strategy}: step", [t * 1e3 for t in times["overlap"]], "ms"),
                ratio_row(f"{strategy}: against no overlap", times["overlap"], times["in_turn"], "no overlap", 0.97),
            ]
    notes = (f"2 emulated hosts with {_RATE} each, 40 MB of parameters in 10 matrices, 256 examples per host",)
    return Result("overlap", tuple(rows), notes)


def _times(cluster: EmulatedCluster, strategy: str, rounds: int) -> dict[str, list[float]]:
    run_dir = train_on_hosts(cluster, "overlap_training.py", strategy, (str(rounds), "times.json"), _TIMEOUT_S)
    times: dict[str, list[float]] = json.loads((run_dir / "times.json").read_text())
    return times
