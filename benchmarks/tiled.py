"""Weights that are large beside the batch, on four emulated hosts: cut over them, or held by each.

Every strategy is a training of its own; their rounds alternate. What is cut is not sent: only activations travel.
"""

from __future__ import annotations

import json

from measuring import Result, Row, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_RATE = "1gbit"
_TIMEOUT_S = 600.0
_TILED = "Tiled()"
_OTHERS = {
    "all-reduce": "AllReduce(communicator='tcp')",
    "factors": "SFB(communicator='tcp')",
    "servers": "PartitionedPS(communicator='tcp')",
    "horovod": "AllReduce(communicator='horovod')",
    "auto": "auto",
    "auto without tiles": "auto(tiles=False)",
}
CASES = (("perceptron", 32), ("perceptron", 8), ("vgg", 32), ("vgg", 8), ("words", 8))


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    hosts, rounds, repeats = (2, 1, 1) if quick else (4, 2, 2)
    rows: list[Row] = []
    with EmulatedCluster(hosts, _RATE) as cluster:
        for model, batch_size in CASES[:1] if quick else CASES:
            rows += _case(cluster, model, batch_size, rounds, repeats)
    said = "perceptron: 4 weights of 4096 x 4096; words: a vocabulary of 30,000"
    notes = (f"{hosts} emulated hosts with {_RATE} each; SGD; {said}",)
    return Result("tiled", tuple(rows), notes)


def _case(cluster: EmulatedCluster, model: str, batch_size: int, rounds: int, repeats: int) -> list[Row]:
    ways = {"tiled": _TILED, **_OTHERS}
    times: dict[str, list[float]] = {way: [] for way in ways}
    sent: dict[str, list[float]] = {way: [] for way in ways}
    memory: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, strategy in ways.items():
            progress(f"{model}, batches of {batch_size}: {way}")
            arguments = (model, str(batch_size), "2", str(rounds), "found.json")
            run_dir = train_on_hosts(cluster, "tiled_training.py", strategy, arguments, _TIMEOUT_S)
            found = json.loads((run_dir / "found.json").read_text())
            times[way] += found["times"]
            sent[way] += found["bytes"]
            memory[way].append(found["rss"])
    name = f"{model}, batches of {batch_size}"
    rows = []
    for way in ways:
        rows.append(row(f"{name}: {way}: step", [t * 1e3 for t in times[way]], "ms"))
        rows.append(row(f"{name}: {way}: sent by the first host", [b / 1e6 for b in sent[way]], "MB"))
        rows.append(row(f"{name}: {way}: most memory of its worker", [m / 1e6 for m in memory[way]], "MB"))
    rows += [ratio_row(f"{name}: {way}, against tiled", times[way], times["tiled"], "tiled") for way in _OTHERS]
    return rows
