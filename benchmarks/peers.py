"""Step time beside Horovod and tf.distribute: the same models, batches and emulated hosts, in turns in one run.

All systems are up at the same time, each with a worker on every host. They take turns at blocks of steps, in an order
that changes from round to round; who has no turn is stopped by a signal, so that nothing of it takes time of another
(MultiWorkerMirrored's workers, which would give each other up, wait without work instead). A step takes as long as on
the host where it takes longest. The bound is the step without communication, or what links
need at least for full gradients (`link_bound.py`), whichever is longer.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from link_bound import link_bound_s
from measuring import Result, Row, progress, ratio_row, row
from peer_systems import Peer, Task, opened

from autodist.testing import EmulatedCluster

__all__ = ["CLUSTERS", "MODELS", "Links", "Measured", "better_peer", "measure", "measured", "measured_on"]

_BLOCK_S = 3.0
_MOST_STEPS = 20
_LEAST_STEPS = 3
_MOST_TIME = 1 / 0.97
"""Of the better peer's: slower nowhere, but for noise."""


@dataclass(frozen=True)
class Links:
    """Hosts and the rates of their links; how many devices each has."""

    num_hosts: int
    rate: str
    rates: Mapping[str, str] = field(default_factory=dict)
    cpus: int = 1


@dataclass(frozen=True)
class Measured:
    """What was measured of one model on one cluster.

    Attributes:
        seconds: By system, the median step of each round.
        batch_size: Examples per step.
        bound_s: What links need at least for full gradients; 0 where the system that tells their size was not asked.
        strategy: What AutoDist chose, and why.
    """

    seconds: Mapping[str, Sequence[float]]
    batch_size: int
    bound_s: float
    strategy: str


CLUSTERS = {
    "4 x 1 Gbit/s": Links(4, "1gbit"),
    "one slow of 4": Links(4, "1gbit", {"h4": "250mbit"}),
    "2 x 1 Gbit/s": Links(2, "1gbit"),
    "2 x 10 Gbit/s": Links(2, "10gbit"),
    "2 x 1 Gbit/s, two replicas each": Links(2, "1gbit", cpus=2),
}
MODELS = {"vgg": 64, "resnet": 16, "bert_3": 8, "ncf_dense": 64, "ncf_sparse": 4096, "lstm": 64}
"""Examples per step by model."""
_SIZE = "medium"
"""Of the models: 8 to 84 MB of weights, so that the network matters."""
_SPARSE = ("ncf_sparse", "lstm")
_SYSTEMS = ("alone", "horovod", "mirrored", "autodist")
_WITH_SERVERS = "4 x 1 Gbit/s"
"""Where ParameterServerStrategy is measured as well."""
_NO_RIVALS = ("alone", "servers", "autodist")
"""ParameterServerStrategy's training is asynchronous: it is shown, and no target is set by it."""


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for cluster in list(CLUSTERS)[:1] if quick else CLUSTERS:
        for model in list(MODELS)[:1] if quick else MODELS:
            rows += _rows(f"{model}, {cluster}", measured(cluster, model, rounds=3 if quick else 6))
    notes = ("AutoDist with the strategy `auto`; models of medium size; all hosts share the cores",)
    return Result("peers", tuple(rows), notes)


def measured(cluster: str, model: str, rounds: int, asynchronous: bool = True) -> Measured:
    """Measure all systems with one model on one cluster; those that are `asynchronous` where they are shown."""
    systems: tuple[str, ...] = (*_SYSTEMS, "horovod_dense") if model in _SPARSE else _SYSTEMS
    systems += ("servers",) if asynchronous and cluster == _WITH_SERVERS else ()
    progress(f"peers: {model}, {cluster}")
    return measured_on(CLUSTERS[cluster], Task(model, _SIZE, MODELS[model]), systems, rounds)


def measured_on(links: Links, task: Task, systems: Sequence[str], rounds: int) -> Measured:
    """Measure systems on hosts with these links; the one alone tells how large gradients are."""
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as directory,
        EmulatedCluster(links.num_hosts, links.rate, rates=links.rates, cpus=links.cpus, binds=[directory]) as hosts,
        opened(hosts, Path(directory), task, systems) as peers,
    ):
        progress(f"peers: {rounds} rounds")
        rates = [host.bandwidth_gbps or 0.0 for host in hosts.spec.hosts]
        bound_s = link_bound_s(max(peer.gradient_bytes for peer in peers), rates)
        strategy = next((peer.strategy for peer in peers if peer.strategy), "")
        return Measured(_in_turns(peers, rounds), task.batch_size, bound_s, strategy)


def better_peer(seconds: Mapping[str, Sequence[float]]) -> str:
    """The fastest of the systems that AutoDist is compared with."""
    rivals = [system for system in seconds if system not in _NO_RIVALS]
    return min(rivals, key=lambda system: statistics.median(seconds[system]))


def _in_turns(peers: Sequence[Peer], rounds: int) -> dict[str, list[float]]:
    counts = {peer.name: _count(peer) for peer in peers}
    seconds: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        for peer in random.Random(number).sample(peers, len(peers)):
            seconds[peer.name].append(peer.block(counts[peer.name]))
    return seconds


def _count(peer: Peer) -> int:
    return max(_LEAST_STEPS, min(_MOST_STEPS, round(_BLOCK_S / peer.block(3))))


def _rows(name: str, found: Measured) -> list[Row]:
    ours, better = found.seconds["autodist"], better_peer(found.seconds)
    limits = [max(found.bound_s, alone) for alone in found.seconds["alone"]]
    steps = [row(f"{name}: {system}", [1e3 * s for s in times], "ms") for system, times in found.seconds.items()]
    return [
        *steps,
        ratio_row(f"{name}: against {better}", ours, found.seconds[better], better, _MOST_TIME),
        ratio_row(f"{name}: against the bound", ours, limits, "links or compute"),
    ]
