"""How long the strategy of a large model takes to all workers: 32 emulated hosts, each with an agent and a worker.

The chief's worker sends it to the coordinator at the launcher, through the agent of its host; the others wait for it
there, through theirs. What each host has to do for itself, reading it, is given as CPU time: here 32 hosts share a few
cores, in a cluster they don't.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from measuring import SCRIPTS, Result, Row, progress, row

from autodist.testing import EmulatedCluster

_RATE = "1gbit"
_STRATEGIES = ("PSLoadBalancing", "PartitionedPS")
_MAX_S = 2.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    num_hosts, rounds = (4, 2) if quick else (32, 3)
    progress(f"broadcast: {num_hosts} hosts")
    with EmulatedCluster(num_hosts, _RATE, rates={"head": _RATE}) as cluster:
        command = [sys.executable, str(SCRIPTS / "broadcast_head.py"), str(num_hosts), str(rounds), *_STRATEGIES]
        ended = cluster.run("head", command, timeout_s=300.0)
    if ended.returncode:
        raise RuntimeError(f"broadcast_head.py ended with {ended.returncode}:\n{ended.stderr[-2000:]}")
    found = json.loads(ended.stdout)
    rows = [line for name in _STRATEGIES for line in _rows(name, [of_rank[name] for of_rank in found])]
    notes = (f"393 variables, 1.3 GB; {num_hosts} emulated hosts with {_RATE} each, the launcher's too",)
    return Result("broadcast", tuple(rows), notes)


def _rows(name: str, ranks: list[list[dict[str, Any]]]) -> Iterator[Row]:
    size = ranks[0][0]["bytes"]
    times = [max(one["there"] for one in of_round) - of_round[0]["sent"] for of_round in zip(*ranks, strict=True)]
    yield row(f"{name} ({size / 1e6:.2g} MB) on all hosts", times, "s", target=_MAX_S)
    yield row(f"{name}: reading it, CPU time per host", [one["read_cpu_s"] for rank in ranks for one in rank], "s")
