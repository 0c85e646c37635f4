"""Models that do not fit: hosts that have a third of the memory that the training needs on one device.

Each system trains a few steps of each model, with Adam. What it has beyond what imports take is told by the worker
(`VmHWM` of the kernel: the most at any time); of memory that belongs to no file it may have a third of what one device
has, and is killed when it has more (`scripts/memory_watch.py`: a control group would do the same, and can't be made
everywhere). Values that lie in files of the disk are in no host's memory for longer than someone looks at them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from measuring import Result, Row, progress, row, run_script
from on_hosts import by_name, train_on_hosts

from autodist.resource_spec import ResourceSpec
from autodist.testing import EmulatedCluster

_HOSTS, _RATE = 4, "1gbit"
_MODELS = ("perceptron", "transformer", "convolutions")
_STRATEGIES = {"autodist": "Tiled()", "horovod": "AllReduce", "mirrored": "AllReduce"}
_STEPS = 3
_PORT = 7100
_SHARE = 1 / 3
_MOST = 1.3
"""Times one device's peak divided by the number of hosts."""
_MOST_AMISS = 0.15
_MOST_DIFFERENT = 1e-4
_TIMEOUT_S = 900.0


@dataclass(frozen=True)
class _Worker:
    """What a worker tells: bytes, the most by then and beyond what imports take, and the losses of its steps."""

    parameters: int
    built: int
    first: int
    steps: int
    now: int
    losses: list[float]


@dataclass(frozen=True)
class _Trained:
    """What is known of a training afterwards.

    Attributes:
        workers: What each worker told; empty if some were killed.
        num_killed: How many workers had more than they may.
        run_dir: The run's directory.
    """

    workers: tuple[_Worker, ...]
    num_killed: int
    run_dir: Path | None

    @property
    def peaks_mb(self) -> list[float]:
        """The most memory of each worker beyond what imports take."""
        return [worker.steps / 1e6 for worker in self.workers]


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(dir="/var/tmp") as directory,
        EmulatedCluster(_HOSTS, _RATE, binds=[directory]) as cluster,
    ):
        for model in _MODELS[:1] if quick else _MODELS:
            rows += _rows(cluster, Path(directory), model, list(_STRATEGIES)[: 1 if quick else None])
    notes = (
        f"{_HOSTS} emulated hosts, each may have a third of what one device has; Adam; memory beyond what imports take",
    )
    return Result("limited_memory", tuple(rows), notes)


def _rows(cluster: EmulatedCluster, shared: Path, model: str, systems: list[str]) -> list[Row]:
    alone = _trained(cluster, shared, "alone", model, 0.0)
    need_mb = max(alone.peaks_mb)
    limit_mb = need_mb * _SHARE
    rows = [
        row(f"{model}: parameters", [alone.workers[0].parameters / 1e6], "MB"),
        row(f"{model}: one device, most memory", [need_mb], "MB"),
        row(f"{model}: limit of each host", [limit_mb], "MB"),
    ]
    for system in systems:
        found = _trained(cluster, shared, system, model, limit_mb)
        rows.append(row(f"{model}: {system}, workers that were killed", [found.num_killed], ""))
        if found.workers:
            _check_losses(alone, found, f"{model}, {system}")
            shares = [peak / need_mb * _HOSTS for peak in found.peaks_mb]
            rows.append(row(f"{model}: {system}, most memory", found.peaks_mb, "MB"))
            name = f"{model}: {system}, largest as a multiple of a quarter of one device's"
            rows.append(row(name, [max(shares)], "x", target=_MOST if system == "autodist" else None))
        if found.workers and system == "autodist" and found.run_dir is not None:
            rows += _estimate_rows(model, found)
    return rows


def _check_losses(alone: _Trained, found: _Trained, what: str) -> None:
    """Make sure that what was trained is the same."""
    for expected, told in zip(alone.workers[0].losses, found.workers[0].losses, strict=True):
        if abs(told / expected - 1) > _MOST_DIFFERENT:
            raise RuntimeError(f"{what}: a loss of {told}, on one device {expected}")


def _estimate_rows(model: str, found: _Trained) -> list[Row]:
    """What `autodist explain` says of the run, beside what was measured."""
    said = run_script([sys.executable, "-m", "autodist", "explain", str(found.run_dir), "--json"], {}, _TIMEOUT_S)
    estimates_mb = [size / 1e6 for size in json.loads(said)["memory_bytes"].values()]
    ratios = [estimate / peak for estimate, peak in zip(estimates_mb, found.peaks_mb, strict=True)]
    return [
        row(f"{model}: estimate for each host", estimates_mb, "MB"),
        row(f"{model}: estimate, of what was measured", ratios, "x"),
        row(f"{model}: by how much it is amiss", [max(abs(ratio - 1) for ratio in ratios)], "x", target=_MOST_AMISS),
    ]


def _trained(cluster: EmulatedCluster, shared: Path, system: str, model: str, limit_mb: float) -> _Trained:
    progress(f"limited_memory: {model}, {system}")
    directory = Path(tempfile.mkdtemp(dir=shared))
    hosts = [
        replace(host, memory_gb=limit_mb / 1e3 if limit_mb else None)
        for host in by_name(cluster).hosts[: 1 if system == "alone" else None]
    ]
    addresses = ",".join(f"{host.name}:{_PORT}" for host in hosts)
    arguments = (system, model, str(_STEPS), f"{limit_mb:.0f}", addresses, str(directory))
    options = ("--env", f"TMPDIR={directory}", "--start-timeout", f"{_TIMEOUT_S:.0f}")
    run_dir, failure = None, None

    try:
        spec = ResourceSpec(tuple(hosts))
        strategy = _STRATEGIES.get(system, "AllReduce")
        run_dir = train_on_hosts(cluster, "limited_training.py", strategy, arguments, _TIMEOUT_S, options, spec)
    except RuntimeError as error:
        failure = error
    watched = [json.loads(file.read_text()) for file in directory.glob("*.watched")]
    num_killed = sum(told["is_over"] for told in watched)
    if failure is not None and not num_killed:
        raise failure
    told = [] if failure else [json.loads((directory / f"{rank}.json").read_text()) for rank in range(len(hosts))]
    return _Trained(tuple(_Worker(**one) for one in told), num_killed, run_dir)
