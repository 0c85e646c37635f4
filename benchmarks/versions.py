"""Step time and bytes of this checkout beside those of an earlier one: `run.py --only versions --earlier DIRECTORY`.

Both train the same models with the same strategies on the same two emulated hosts, in turns in one run, each by the
interpreter of its own checkout (`DIRECTORY/.venv`, as `make setup` makes it). This checkout takes part twice: what its
two trainings differ by is what the machine's noise is.
"""

from __future__ import annotations

import os
import random
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from measuring import Result, Row, progress, ratio_row, row
from peer_systems import Peer, System, Task, opened

from autodist.testing import EmulatedCluster

__all__ = ["EARLIER", "measure"]

EARLIER = "AUTODIST_BENCHMARKS_EARLIER"
"""Names the directory of the earlier checkout, in the environment."""
_MODELS = {"vgg": 64, "resnet": 16, "bert_3": 8, "ncf_sparse": 4096, "lstm": 64}
"""Examples per step by model."""
_STRATEGIES = ("AllReduce(communicator='tcp')", "PartitionedPS(communicator='tcp')")
_MOST_TIME = 1 / 0.98
_STEPS = 8
_NOW, _AGAIN, _THEN = "this version", "this version again", "the earlier one"


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    systems = [System(_NOW, "autodist"), System(_AGAIN, "autodist"), System(_THEN, "autodist", _earlier_python())]
    rows: list[Row] = []
    for model in list(_MODELS)[:1] if quick else _MODELS:
        for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
            task = Task(model, "medium", _MODELS[model], strategy)
            rows += _rows(f"{model}, {strategy}", task, systems, rounds=4 if quick else 12)
    return Result(
        "versions", tuple(rows), ("2 emulated hosts, 1 Gbit/s, which share the cores; models of medium size",)
    )


def _earlier_python() -> str:
    directory = os.environ.get(EARLIER, "")
    python = Path(directory).absolute() / ".venv" / "bin" / "python"
    if not directory or not python.exists():
        raise RuntimeError(f"`--earlier {directory}` has to be a checkout after `make setup`: there is no {python}")
    return str(python)


def _rows(name: str, task: Task, systems: Sequence[System], rounds: int) -> list[Row]:
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as directory,
        EmulatedCluster(2, "1gbit", binds=[directory]) as hosts,
        opened(hosts, Path(directory), task, systems) as peers,
    ):
        progress(f"versions: {name}, {rounds} rounds")
        seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
        sent: dict[str, list[float]] = {peer.name: [] for peer in peers}
        for number in range(rounds):
            for peer in random.Random(number).sample(peers, len(peers)):
                seconds_of_step, bytes_of_step = _block(hosts, peer)
                seconds[peer.name].append(seconds_of_step)
                sent[peer.name].append(bytes_of_step)
    now, again, then = seconds[_NOW], seconds[_AGAIN], seconds[_THEN]
    # The two trainings of this version are one: the better of two would win by chance.
    both = [statistics.mean(pair) for pair in zip(now, again, strict=True)]
    return [
        row(f"{name}: step", [1e3 * s for s in both], "ms"),
        ratio_row(f"{name}: time over the earlier", both, then, _THEN, _MOST_TIME),
        ratio_row(f"{name}: time over itself", now, again, _AGAIN),
        ratio_row(f"{name}: bytes over the earlier", sent[_NOW], sent[_THEN], _THEN, _MOST_TIME),
    ]


def _block(hosts: EmulatedCluster, peer: Peer) -> tuple[float, float]:
    """Seconds of a step, and bytes that a host sends in it, of the one that sends most."""
    before = _sent(hosts)
    seconds = peer.block(_STEPS)
    after = _sent(hosts)
    return seconds, max(b - a for a, b in zip(before, after, strict=True)) / (1 + _STEPS)


def _sent(hosts: EmulatedCluster) -> list[int]:
    count = ["sh", "-c", "cat /sys/class/net/e*/statistics/tx_bytes"]
    found = [hosts.run(host.name, count) for host in hosts.spec.hosts]
    return [sum(map(int, one.stdout.split())) for one in found]
