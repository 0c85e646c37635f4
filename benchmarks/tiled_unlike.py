"""As `tiled`, on hosts that differ: one link at a quarter of the others' rate, or one host at half of their speed.

What matters is that `auto` is not slower than without tiles where parts are equal and hosts are not.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from bounded_processors import bounded_processors
from measuring import Result, Row, progress, ratio_row, row
from on_hosts import by_name, train_on_hosts
from tiled import CASES

from autodist.testing import EmulatedCluster

_RATE = "1gbit"
_TIMEOUT_S = 600.0
_AUTO, _WITHOUT = "auto", "auto(tiles=False)"
_HOSTS = 4
_LAST = f"h{_HOSTS}"
_LONGEST = 1 / 0.97
"""The target: `auto`'s time by that without tiles; slower nowhere, but for noise."""


@dataclass(frozen=True)
class _Unlike:
    """Hosts of which the last one is slower.

    Attributes:
        rates: By host, the rates of links that differ.
        cores: What the last host may take at most; 0 for no bound.
    """

    rates: Mapping[str, str] = field(default_factory=dict)
    cores: float = 0.0


_CLUSTERS = {
    "one link at a quarter": _Unlike(rates={_LAST: "250mbit"}),
    "one host at half speed": _Unlike(cores=(os.cpu_count() or 1) / _HOSTS / 2),
}


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    repeats = 1 if quick else 2
    rows: list[Row] = []
    for name, unlike in _CLUSTERS.items():
        with EmulatedCluster(_HOSTS, _RATE, rates=unlike.rates) as cluster, _slowed(cluster, unlike):
            for model, batch_size in CASES[:1] if quick else CASES:
                rows += _case(cluster, name, model, batch_size, repeats)
    notes = (f"{_HOSTS} emulated hosts with {_RATE} each, the last one slower; SGD; as `tiled`",)
    return Result("tiled_unlike", tuple(rows), notes)


def _slowed(cluster: EmulatedCluster, unlike: _Unlike) -> AbstractContextManager[None]:
    return bounded_processors(cluster, _LAST, unlike.cores) if unlike.cores else contextlib.nullcontext()


def _case(cluster: EmulatedCluster, where: str, model: str, batch_size: int, repeats: int) -> list[Row]:
    times: dict[str, list[float]] = {_AUTO: [], _WITHOUT: []}
    spec = by_name(cluster)
    for _ in range(repeats):
        for strategy, found in times.items():
            progress(f"{where}: {model}, batches of {batch_size}: {strategy}")
            arguments = (model, str(batch_size), "4", "2", "found.json")
            run_dir = train_on_hosts(cluster, "tiled_training.py", strategy, arguments, _TIMEOUT_S, spec=spec)
            found += json.loads((run_dir / "found.json").read_text())["times"]
    name = f"{where}: {model}, batches of {batch_size}"
    rows = [row(f"{name}: {way}", [t * 1e3 for t in found], "ms") for way, found in times.items()]
    ratio = ratio_row(f"{name}: {_AUTO}, against {_WITHOUT}", times[_AUTO], times[_WITHOUT], _WITHOUT, _LONGEST)
    return [*rows, ratio]
