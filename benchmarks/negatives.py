"""In-batch negatives on emulated hosts: a loss that compares all rows of a batch, against what links allow.

Each host needs the items of all others: what it sends is `(n - 1) / n` of all bytes at least. Of the gradient by the
items each host has a part for all rows, and needs the sum for its own: as much again. By hand, with Horovod's gather
and its gradient, that sum goes to everybody.
"""

from __future__ import annotations

import json

from measuring import Result, Row, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_RATE = "1gbit"
_BYTES_PER_S = 1e9 / 8
_ITEMS_BYTES = 4096 * 256 * 4
_TIMEOUT_S = 240.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    hosts, rounds = (2, 2) if quick else (4, 4)
    ways = {"autodist": "AllReduce(communicator='tcp')", "horovod": "AllReduce(communicator='horovod')"}
    times: dict[str, list[float]] = {way: [] for way in ways}
    sent: dict[str, list[float]] = {way: [] for way in ways}
    with EmulatedCluster(hosts, _RATE) as cluster:
        for _ in range(1 if quick else 3):
            for way, strategy in ways.items():
                progress(f"negatives: {way}")
                arguments = (way, str(rounds), "times.json")
                run_dir = train_on_hosts(cluster, "negatives_training.py", strategy, arguments, _TIMEOUT_S)
                found = json.loads((run_dir / "times.json").read_text())
                times[way] += found["times"]
                sent[way] += found["bytes"]
    part_bytes = _ITEMS_BYTES * (hosts - 1) / hosts
    rows: list[Row] = []
    for way in ways:
        rows.append(row(f"{way}: step", [t * 1e3 for t in times[way]], "ms"))
        rows.append(row(f"{way}: sent by a host, against one gather", [s / part_bytes for s in sent[way]], "x"))
    rows.append(ratio_row("autodist, against by hand", times["autodist"], times["horovod"], "by hand"))
    bound_ms = 2e3 * part_bytes / _BYTES_PER_S
    notes = (
        f"{hosts} emulated hosts with {_RATE} each, 4096 rows of 256; gather and sum take {bound_ms:.0f} ms at least",
    )
    return Result("negatives", tuple(rows), notes)
