"""What it is worth that gradients travel while the next step computes: all-reduce with a staleness of 1, and without.

On two emulated hosts with 1 Gbit/s links; every strategy is a training of its own, and their rounds alternate.
"""

from __future__ import annotations

import json

from measuring import Result, Row, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_RATE = "1gbit"
_TIMEOUT_S = 600.0
_NOW, _LATER = "AllReduce(communicator='tcp')", "AllReduce(communicator='tcp', staleness=1)"
_CASES = (("words", 32), ("words", 16), ("vgg", 128))


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with EmulatedCluster(2, _RATE) as cluster:
        for model, batch_size in _CASES[:1] if quick else _CASES:
            rows += _case(cluster, model, batch_size, 1 if quick else 3)
    notes = (f"2 emulated hosts with {_RATE} each; SGD; the models of `tiled`",)
    return Result("staleness", tuple(rows), notes)


def _case(cluster: EmulatedCluster, model: str, batch_size: int, repeats: int) -> list[Row]:
    times: dict[str, list[float]] = {_NOW: [], _LATER: []}
    for _ in range(repeats):
        for strategy, found in times.items():
            progress(f"{model}, batches of {batch_size}: {strategy}")
            arguments = (model, str(batch_size), "4", "2", "found.json")
            run_dir = train_on_hosts(cluster, "tiled_training.py", strategy, arguments, _TIMEOUT_S)
            found += json.loads((run_dir / "found.json").read_text())["times"]
    name = f"{model}, batches of {batch_size}"
    rows = [row(f"{name}: {way}", [t * 1e3 for t in found], "ms") for way, found in times.items()]
    return [*rows, ratio_row(f"{name}: with staleness, against none", times[_LATER], times[_NOW], _NOW)]
