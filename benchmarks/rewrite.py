"""How long a worker takes from the traced step to the graph it runs, for a step of the size of BERT-large's.

24 transformer layers of hidden size 256: 387 trainable variables and about 31,000 nodes. Tracing is TensorFlow's own
time and is shown apart. The limit is one copy of the step's GraphDef by protobuf itself.

All of it happens in one thread, so its CPU time is what a free core would need by the clock, whatever else the machine
does. The parts are given by the clock.
"""

from __future__ import annotations

import statistics
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tensorflow as tf
from measuring import Result, Row, progress, row
from training_steps import TOKENS, training_step, transformer

from autodist.graph import CapturedStep, VariableNames, capture
from autodist.kernels import Layout, kernels_for, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import compose

_LIMIT = "one protobuf copy"
_MAX_S = 5.0
_MAX_MB = 1000.0
_STRATEGIES = ("AllReduce", "PSLoadBalancing")
_PAGE_BYTES = 4096


@dataclass(frozen=True)
class Case:
    """Whose graph is made, of two workers."""

    strategy: str
    rank: int
    replicas: int

    def __str__(self) -> str:
        worker = "chief" if self.rank == 0 else "other worker"
        return f"{self.strategy}, {worker}, {self.replicas} replica{'s' if self.replicas > 1 else ''} each"


@dataclass(frozen=True)
class Sample:
    """One worker's way from the traced step to its graph: CPU seconds of it all, and the parts by the clock."""

    total_s: float
    compose_s: float
    kernels_s: dict[str, float]


@dataclass
class _Samples:
    trace_s: list[float] = field(default_factory=list)
    flatten_s: list[float] = field(default_factory=list)
    copy_s: list[float] = field(default_factory=list)
    extra_mb: list[float] = field(default_factory=list)
    cases: dict[Case, list[Sample]] = field(default_factory=dict)


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    step = training_step(transformer(layers=2 if quick else 24))
    # The first round also warms the caches of ops and imports, as the first step of a training has to.
    samples = _Samples()
    for number in range(1 if quick else 2):
        progress(f"rewrite: round {number + 1}")
        nodes = _round(step, samples, Case("PSLoadBalancing", 0, 2) if number == 0 else None)
    notes = (f"{nodes} nodes as captured; targets hold for CPU time, parts are by the clock",)
    return Result("rewrite", tuple(_rows(samples)), notes)


def _round(step: Any, samples: _Samples, first: Case | None) -> int:
    specs = [tf.TensorSpec([8, TOKENS], tf.int32), tf.TensorSpec([8], tf.int32)]
    with _Monitor() as monitor:
        started = time.perf_counter()
        captured = capture(step, specs, VariableNames())
        traced_at = started + captured.trace_s
        samples.flatten_s.append(time.perf_counter() - traced_at)
        flatten_cpu_s = monitor.cpu_s(since=traced_at)
        if first is not None:
            _add(samples, first, captured, flatten_cpu_s)
    if first is not None:
        samples.extra_mb.append(monitor.growth_mb(since=traced_at))
    samples.trace_s.append(captured.trace_s)
    samples.copy_s.append(_copy_s(captured.graph.graph_def))
    for strategy in _STRATEGIES:
        for rank in (0, 1):
            for replicas in (1, 2):
                _add(samples, Case(strategy, rank, replicas), captured, flatten_cpu_s)
    return len(captured.graph.graph_def.node)


def _add(samples: _Samples, case: Case, captured: CapturedStep, flatten_cpu_s: float) -> None:
    spec = ResourceSpec.local(workers=2, cpus=case.replicas)
    started, cpu_started = time.perf_counter(), time.process_time()
    strategy = compose(case.strategy, captured.graph, spec)  # checks it as well
    compose_s = time.perf_counter() - started
    layout = Layout.of(strategy, spec, case.rank, server=False)
    _, timings = rewrite(captured.graph, layout, kernels_for(captured.graph, strategy))
    total_s = flatten_cpu_s + time.process_time() - cpu_started
    sample = Sample(total_s, compose_s, {timing.kernel: timing.duration_s for timing in timings})
    samples.cases.setdefault(case, []).append(sample)


def _rows(samples: _Samples) -> list[Row]:
    copy_s = statistics.median(samples.copy_s)
    rows = [
        row("tracing, by TensorFlow", samples.trace_s, "s"),
        row("flatten and analyze", samples.flatten_s, "s"),
        row(_LIMIT, samples.copy_s, "s"),
    ]
    for case, found in samples.cases.items():
        totals = [sample.total_s for sample in found]
        share = copy_s / statistics.median(totals)
        rows.append(row(str(case), totals, "CPU s", limit=_LIMIT, of_limit=share, target=_MAX_S))
    for strategy in _STRATEGIES:
        rows += _kernel_rows(strategy, samples.cases[Case(strategy, 0, 2)])
    return [*rows, row("extra memory at the peak", samples.extra_mb, "MB", target=_MAX_MB)]


def _kernel_rows(strategy: str, samples: list[Sample]) -> list[Row]:
    """The parts of the chief's time with two replicas."""
    rows = [row(f"{strategy}: strategy and verify", [sample.compose_s for sample in samples], "s")]
    for kernel in samples[0].kernels_s:
        times = [sample.kernels_s[kernel] for sample in samples]
        if statistics.median(times) >= 0.01:
            rows.append(row(f"{strategy}: kernel {kernel}", times, "s"))
    return rows


def _copy_s(graph_def: Any) -> float:
    started = time.perf_counter()
    type(graph_def)().CopyFrom(graph_def)
    return time.perf_counter() - started


class _Monitor:
    """Samples the resident memory and the CPU time of this process."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, int]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Monitor:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def growth_mb(self, since: float) -> float:
        """The most that was resident from a moment on, above what was resident at that moment."""
        before = [pages for moment, _, pages in self._samples if moment <= since]
        after = [pages for moment, _, pages in self._samples if moment > since]
        return (max(after) - before[-1]) * _PAGE_BYTES / 1e6

    def cpu_s(self, since: float) -> float:
        """CPU seconds spent from a moment until now."""
        before = [cpu_s for moment, cpu_s, _ in self._samples if moment <= since]
        return time.process_time() - before[-1]

    def _watch(self) -> None:
        while True:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._samples.append((time.perf_counter(), time.process_time(), pages))
            if self._ended.wait(0.01):
                return
