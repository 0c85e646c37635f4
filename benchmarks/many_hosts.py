"""Sums of gradients on 4, 8 and 16 emulated hosts with 100 Mbit/s, beside what the links allow and beside Horovod.

The more hosts, the more connections end at each of them: where many senders meet, packets are lost, or links stay idle
while their senders wait. Steps compute next to nothing. The limit is the time in which a link carries a host's part of
an all-reduce, 2 (n - 1) / n of the gradients in each direction, without headers and without encoding.
"""

from __future__ import annotations

import json

from link_bound import link_bound_s
from measuring import Result, Row, progress, ratio_row, row
from on_hosts import by_name, train_on_hosts

from autodist.testing import EmulatedCluster

_HOSTS, _RATE, _GBPS = (4, 8, 16), "100mbit", 0.1
_SIZE_BYTES = 2.7e6
_WAYS = (
    "AllReduce(communicator='tcp')",
    "PartitionedPS(communicator='tcp')",
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='horovod')",
)
_OWN = 2
"""How many of these go over AutoDist's own library."""
_OF_LIMIT = 0.75
_ROUNDS, _BLOCKS = 2, 4
_TIMEOUT_S = 300.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for count in _HOSTS[:1] if quick else _HOSTS:
        progress(f"many_hosts: {count} hosts")
        rows += _rows(count, _measured(count, 1 if quick else _ROUNDS))
    notes = (
        f"{_RATE} in each direction, 2.7 MB of gradients in 5 variables; {_ROUNDS} launches of each way, in turns",
        "the limit is without encoding, by which AutoDist's own library saves an eighth: more than 1 of it is possible",
    )
    return Result("many_hosts", tuple(rows), notes)


def _measured(count: int, rounds: int) -> dict[str, list[float]]:
    """By way, seconds per step of each block."""
    found: dict[str, list[float]] = {way: [] for way in _WAYS}
    with EmulatedCluster(count, _RATE) as cluster:
        for number in range(rounds):
            for way in _WAYS if number % 2 == 0 else reversed(_WAYS):
                run_dir = train_on_hosts(
                    cluster,
                    "many_hosts_training.py",
                    way,
                    (f"{_BLOCKS}", "times.json"),
                    _TIMEOUT_S,
                    options=("--allow-open-ports",),  # TensorFlow's collectives need them
                    spec=by_name(cluster),  # it says that links are slow, so that floats are encoded
                )
                found[way] += json.loads((run_dir / "times.json").read_text())
    return found


def _rows(count: int, found: dict[str, list[float]]) -> list[Row]:
    limit_s = link_bound_s(_SIZE_BYTES, [_GBPS] * count)
    *_, horovod = _WAYS
    rows = []
    for number, way in enumerate(_WAYS):
        times, target = found[way], 1 / _OF_LIMIT if number < _OWN else None
        rows += [
            row(f"{count} hosts, {way}: step", [1e3 * time for time in times], "ms"),
            ratio_row(f"{count} hosts, {way}: against the limit", times, [limit_s] * len(times), "links", target),
        ]
        if way != horovod:
            rows.append(ratio_row(f"{count} hosts, {way}: against Horovod", times, found[horovod], "Horovod"))
    return rows
