"""What encryption costs (`autodist run --encrypt`): sums by AutoDist's own connections with and without it.

Over the loopback nothing but the processors bounds them. On emulated hosts with links it is the step of a model that
sends 40 MB, by runs with and without encryption in turns.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import subprocess
import sys
from typing import Any

from measuring import SCRIPTS, Result, Row, alternate, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_SIZE_MB = 64
_ROUNDS = 8
_RATE = "1gbit"
_STRATEGY = "AllReduce(communicator='tcp')"
_TIMEOUT_S = 300.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    progress("encryption: loopback")
    rows = _on_loopback(pairs=4 if quick else 12)
    if not quick:
        progress(f"encryption: hosts with {_RATE}")
        rows += _on_links(pairs=3)
    notes = (
        f"loopback: all-reduce of {_SIZE_MB} MB between two processes, which share this machine's cores with what "
        f"encrypts and decrypts; links: 2 emulated hosts with {_RATE} each, 40 MB of parameters",
    )
    return Result("encryption", tuple(rows), notes)


def _on_loopback(pairs: int) -> list[Row]:
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, str(SCRIPTS / "encryption_worker.py"), str(rank), str(listener.fileno())),
                *(str(listeners[1 - rank].getsockname()[1]), str(_SIZE_MB), str(pairs), str(_ROUNDS)),
            ],
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"},
        )
        for rank, listener in enumerate(listeners)
    ]
    try:
        told = [process.communicate(timeout=_TIMEOUT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(process.returncode for process in processes):
        raise RuntimeError("a worker has failed")
    found: dict[str, list[dict[str, Any]]] = json.loads(told[0])
    times = {way: [block["s"] for block in blocks] for way, blocks in found.items()}
    gigabytes = _SIZE_MB * 2**20 / 1e9
    cpu = [1e3 * (one["cpu_s"] - other["cpu_s"]) / gigabytes for other, one in zip(*found.values(), strict=True)]
    return [
        *(row(f"loopback, {way}", [gigabytes / s for s in of_way], "GB/s each way") for way, of_way in times.items()),
        ratio_row("loopback: encrypted against plain, time", times["encrypted"], times["plain"], "plain"),
        row("processor time by encryption, of each process", cpu, "ms per GB each way"),
    ]


def _on_links(pairs: int) -> list[Row]:
    with EmulatedCluster(2, _RATE) as cluster:

        def step_s(*options: str) -> float:
            run_dir = train_on_hosts(
                cluster, "network_training.py", _STRATEGY, ("4", "times.json"), _TIMEOUT_S, options
            )
            return statistics.median(json.loads((run_dir / "times.json").read_text())["autodist"])

        plain, encrypted = alternate(step_s, lambda: step_s("--encrypt"), pairs)
    return [
        row(f"{_RATE}, plain: step", [1e3 * s for s in plain], "ms"),
        row(f"{_RATE}, encrypted: step", [1e3 * s for s in encrypted], "ms"),
        ratio_row(f"{_RATE}: encrypted against plain, step", encrypted, plain, "plain"),
    ]
