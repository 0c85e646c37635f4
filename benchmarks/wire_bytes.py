"""What workers really send per step, as the kernel counts, against `strategies.traffic`: for every builder that runs.

Two local workers train the model of scripts/wire_training.py under one strategy after another, those that use
TensorFlow's collectives in a run of their own, and so those of AutoDist's own library by links that are said to be
slow, for which it encodes floats.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import SCRIPTS, Result, Row, progress, run_script

from autodist.graph import TrainingGraph
from autodist.resource_spec import ResourceSpec
from autodist.strategies import Strategy, StrategyBuilder, builders, get, traffic, verify
from autodist.transport import is_coded

_TARGET = 1.05
_TIMEOUT_S = 150.0
_FIRST = "PSLoadBalancing"
_OTHERS = ("PS(local_proxy=True)", "AllReduce(compressor='FP16')", "BytePS(compressor='TopK(ratio=0.01)')")
_COLLECTIVE = ("AllReduce(communicator='collective')", "AllReduce(communicator='collective', compressor='OneBit')")
_CODED = (
    "PSLoadBalancing(communicator='tcp')",
    "AllReduce(communicator='tcp')",
    "PSLoadBalancing(communicator='tcp', compressor='FP16')",
)
_SLOW = "version: 1\nnodes: [{address: localhost, workers: 2, bandwidth_gbps: 0.25}]\n"
_LEFT_OUT = {"Manual"}  # it needs a plan


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    with tempfile.TemporaryDirectory() as directory:
        first = _run(Path(directory) / "first", (_FIRST,))
        graph, spec = first.graph, first.spec
        wanted = [info.name for info in builders() if info.name not in {*_LEFT_OUT, _FIRST}]
        usable, refused = _usable((*wanted, *_OTHERS), graph, spec)
        runs = [first]
        if not quick:
            runs.append(_run(Path(directory) / "servers", usable))
            runs.append(_run(Path(directory) / "collectives", _COLLECTIVE))
            runs.append(_run(Path(directory) / "slow links", _CODED, _SLOW))
        rows = [row for run in runs for row in run.rows()]
    notes = [
        "2 workers on one machine, the bytes that each has sent over all its connections, averaged over 5 steps",
        "the value is the worse of both workers: measured by formula, or the reverse if that is more",
        *(f"not run, for verification refuses it: {name}" for name in refused),
    ]
    return Result("wire_bytes", tuple(rows), tuple(notes))


class _Run:
    """What a run has measured, and what the formulas say about it."""

    def __init__(self, directory: Path) -> None:
        self.graph = TrainingGraph.load(directory / "run" / "graph.zip")
        self.spec = ResourceSpec.from_json((directory / "run" / "spec.json").read_text())
        self._has_slow_links = any(is_coded(host.bandwidth_gbps) for host in self.spec.hosts)
        self._results = [json.loads((directory / f"{rank}.json").read_text()) for rank in range(2)]

    def rows(self) -> list[Row]:
        return [row for name in self._results[0] for row in self._rows(name)]

    def _rows(self, name: str) -> list[Row]:
        strategy = Strategy.from_json(self._results[0][name]["strategy"])
        expected = traffic(strategy, self.graph, self.spec).sent.values()
        sent = [result[name]["sent"] for result in self._results]
        ratios = [measured / formula for measured, formula in zip(sent, expected, strict=True)]
        worst = max((*ratios, *(1 / ratio for ratio in ratios)))
        low, high = min(sent) / 1e6, max(sent) / 1e6
        name = f"{name}, slow links" if self._has_slow_links else name
        return [
            Row(f"{name}: sent by the busier worker", high, low, high, "MB"),
            Row(f"{name}: against the formula", worst, min(ratios), max(ratios), "x", target=_TARGET),
        ]


def _run(directory: Path, strategies: tuple[str, ...], spec: str | None = None) -> _Run:
    progress(f"wire_bytes: {', '.join(strategies)}")
    directory.mkdir()
    cluster = ["--workers", "2"]
    if spec is not None:
        (directory / "spec.yml").write_text(spec)
        cluster = ["--spec", f"{directory}/spec.yml"]
    command = [sys.executable, "-m", "autodist", "run", *cluster, "--run-dir", f"{directory}/run"]
    run_script([*command, str(SCRIPTS / "wire_training.py"), "--", str(directory), *strategies], {}, _TIMEOUT_S)
    return _Run(directory)


def _usable(names: tuple[str, ...], graph: TrainingGraph, spec: ResourceSpec) -> tuple[tuple[str, ...], list[str]]:
    """Those that verification lets pass, and the others."""
    usable, refused = [], []
    for name in names:
        builder: Any = get(name)
        assert isinstance(builder, StrategyBuilder), name
        (refused if verify(builder.build(graph, spec), graph, spec) else usable).append(name)
    return tuple(usable), refused
