"""Step time on emulated hosts with 1 Gbit/s links, against what the links allow.

A dense model of 40 MB on two hosts: whatever a synchronous strategy does, each host has to send half of the gradients
and half of the new values (or their like), 40 MB in all, while it computes. The limit is the longer of the two: the
same worker's step without communication, and the bytes over the rate that a plain TCP stream reaches on the same link
at the time.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from measuring import Result, Row, progress, ratio_row, row
from on_hosts import train_on_hosts

from autodist.testing import EmulatedCluster

_STRATEGIES = (
    "PartitionedPS()",
    "PSLoadBalancing()",
    "AllReduce(communicator='collective')",
    "AllReduce(communicator='horovod')",
)
_RATE = "1gbit"
_SIZE_BYTES = 40 * 2**20
_STREAM_BYTES = 24 * 2**20
_FRACTION = 0.85
_TIMEOUT_S = 120.0

_TAKE = """
import socket
server = socket.create_server(("", 7001))
print("ready", flush=True)
stream, _ = server.accept()
while stream.recv(2**20):
    pass
stream.sendall(b"all")
"""
_SEND = f"""
import socket, time
stream = socket.create_connection(("h2", 7001))
began = time.monotonic()
stream.sendall(bytes({_STREAM_BYTES}))
stream.shutdown(socket.SHUT_WR)
stream.recv(3)
print({_STREAM_BYTES} / (time.monotonic() - began))
"""


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with EmulatedCluster(2, _RATE) as cluster:
        for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
            progress(f"network: {strategy}")
            rows += _measured(cluster, strategy, rounds=4 if quick else 8)
    notes = (
        f"2 emulated hosts with {_RATE} each, 40 MB of parameters in 10 matrices; the limit is the longer of computing "
        "and sending 40 MB per host at the rate of a plain TCP stream",
    )
    return Result("network", tuple(rows), notes)


def _measured(cluster: EmulatedCluster, strategy: str, rounds: int) -> list[Row]:
    before = _rate(cluster)
    run_dir = train_on_hosts(cluster, "network_training.py", strategy, (str(rounds), "times.json"), _TIMEOUT_S)
    times = json.loads((run_dir / "times.json").read_text())
    link_s = _SIZE_BYTES / statistics.mean([before, _rate(cluster)])
    limits = [max(link_s, plain) for plain in times["plain"]]
    sent = times["sent_bytes_per_step"] / _SIZE_BYTES
    return [
        row(f"{strategy}: step", [t * 1e3 for t in times["autodist"]], "ms"),
        ratio_row(f"{strategy}: against the limit", times["autodist"], limits, "link or compute", 1 / _FRACTION),
        row(f"{strategy}: bytes sent per step against 40 MB", [sent], "x", target=1.05),
    ]


def _rate(cluster: EmulatedCluster) -> float:
    """Bytes per second of a plain TCP stream from one host to the other."""
    taker = subprocess.Popen(cluster.command("h2", [sys.executable, "-c", _TAKE]), stdout=subprocess.PIPE, text=True)
    assert taker.stdout is not None
    taker.stdout.readline()
    sent = subprocess.run(
        cluster.command("h1", [sys.executable, "-c", _SEND]), stdout=subprocess.PIPE, text=True, check=True, timeout=60
    )
    taker.communicate(timeout=60)
    return float(sent.stdout)
