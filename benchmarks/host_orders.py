"""How well the simulator orders strategies on 2 to 16 emulated hosts: what users know, measured beside what it expects.

All hosts compute on the same processors, so that a step takes longer the more there are; what a step without any
communication takes is measured first.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from measuring import ROOT, Result, Row, progress
from searched import KNOWN, Searched

from autodist.testing import EmulatedCluster

_HOSTS, _RATE = (2, 4, 8, 16), "100mbit"
_MODELS = ("resnet", "vgg")
_EXAMPLES = 4
"""On each host."""
_DRAWN = 4
"""Strategies that a search draws besides."""
_ROUNDS = 2
_MOST_WRONG = 0.1


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    for count in _HOSTS[:1] if quick else _HOSTS:
        with (
            tempfile.TemporaryDirectory() as directory,
            EmulatedCluster(count, _RATE, binds=[Path(directory)]) as hosts,
        ):
            for model in _MODELS[:1] if quick else _MODELS:
                progress(f"{model} on {count} hosts")
                rows += _case(hosts, Path(directory), model, count)
    notes = (
        f"{_EXAMPLES} examples per host, {_RATE}; {KNOWN} strategies that users know, {_DRAWN} drawn, {_ROUNDS} rounds",
        "the simulator of events with the constants that AutoDist comes with, and a step without communication",
    )
    return Result("host_orders", tuple(rows), notes)


def _case(cluster: EmulatedCluster, directory: Path, model: str, count: int) -> list[Row]:
    batch_size = _EXAMPLES * count
    arguments = (model, "--size", "small", "--batch-size", f"{batch_size}", "--steps", "8")
    script = ROOT / "examples" / "train_model.py"
    searched = Searched(cluster, directory / f"{model}.db", script, arguments, batch_size)
    searched.search(KNOWN + _DRAWN, rounds=_ROUNDS)
    return searched.rows(f"{model} on {count} hosts", "strategies", _MOST_WRONG, lambda _: True)
