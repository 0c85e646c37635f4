"""How rewriting and the first step grow with the graph, and with the number of hosts.

Transformers of 1 to 72 layers have about 1,600 to 98,000 nodes as captured. Rewriting happens in one thread, so its CPU
time is what a free core would need. Of a first step the CPU time of one worker counts, since all workers share the
cores here: import, tracing, rewriting, sessions and the step. Both have to be proportional to the graph that a worker
has, and must not know how many others there are.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf
from measuring import SCRIPTS, Result, Row, progress, row, run_script
from training_steps import TOKENS, training_step, transformer

from autodist.graph import CapturedStep, VariableNames, capture
from autodist.kernels import Layout, kernels_for, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.strategies import compose, needs_servers

_STRATEGIES = ("AllReduce(communicator='collective')", "PSLoadBalancing")
_LAYERS = (1, 6, 24, 72)
_HOSTS = (2, 8, 32, 128)
_WORKERS = (2, 4, 8)
_LAYERS_FOR_HOSTS = 6
_MOST_PER_NODE = 1.5
"""Of the largest graph per node, as a multiple of that of the middle one."""
_MOST_BY_HOSTS = 1.25
_TIMEOUT_S = 600.0
_FIRST_STEP = re.compile(r"first step (\{.*\})")


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    layers, hosts, workers = (_LAYERS[:2], _HOSTS[:2], _WORKERS[:1]) if quick else (_LAYERS, _HOSTS, _WORKERS)
    rows = [*_by_graph(layers), *_by_hosts(hosts), *_first_steps(layers, workers)]
    return Result("growth", tuple(rows), (f"hosts: with {_LAYERS_FOR_HOSTS} layers; growth: the last over the first",))


# --- rewriting


def _by_graph(sizes: Sequence[int]) -> list[Row]:
    found: dict[str, dict[int, float]] = {name: {} for name in _STRATEGIES}
    rows = []
    for layers in sizes:
        progress(f"growth: rewriting {layers} layers")
        step = _captured(layers)
        nodes = len(step.graph.graph_def.node)
        for name in _STRATEGIES:
            samples = [_rewritten_s(step, name, 2, 0) for _ in range(2)]
            found[name][nodes] = min(samples)
            rows.append(row(f"rewriting {nodes} nodes, {name}", samples, "CPU s"))
    return rows + [_proportional(f"rewriting, {name}, per node", seconds) for name, seconds in found.items()]


def _by_hosts(counts: Sequence[int]) -> list[Row]:
    step = _captured(_LAYERS_FOR_HOSTS)
    rows = []
    for name in _STRATEGIES:
        for who, rank in (("chief", 0), ("last worker", -1)):
            progress(f"growth: rewriting for {counts[-1]} hosts, {name}, {who}")
            seconds = {count: min(_rewritten_s(step, name, count, rank % count) for _ in range(2)) for count in counts}
            rows += [row(f"rewriting for {count} hosts, {name}, {who}", [s], "CPU s") for count, s in seconds.items()]
            rows.append(_ratio(f"rewriting, {name}, {who}: {counts[-1]} hosts over {counts[0]}", seconds))
    return rows


def _captured(layers: int) -> CapturedStep:
    specs = [tf.TensorSpec([8, TOKENS], tf.int32), tf.TensorSpec([8], tf.int32)]
    return capture(training_step(transformer(layers)), specs, VariableNames())


def _rewritten_s(step: CapturedStep, name: str, hosts: int, rank: int) -> float:
    spec = ResourceSpec.local(workers=hosts)
    strategy = compose(name, step.graph, spec)
    began = time.process_time()
    layout = Layout.of(strategy, spec, rank, server=needs_servers(strategy))
    rewrite(step.graph, layout, kernels_for(step.graph, strategy))
    return time.process_time() - began


# --- the first step


def _first_steps(sizes: Sequence[int], counts: Sequence[int]) -> list[Row]:
    by_size = {}
    for layers in sizes:
        told = _first_step(layers, 2)
        by_size[layers] = told["cpu_s"] - told["imported_s"]
    by_workers = {count: _first_step(_LAYERS_FOR_HOSTS, count)["cpu_s"] for count in counts}
    return [
        *(row(f"first step without imports, {layers} layers", [s], "CPU s") for layers, s in by_size.items()),
        _proportional("first step, per layer", by_size),
        *(row(f"first step, {count} workers", [s], "CPU s") for count, s in by_workers.items()),
        _ratio(f"first step: {counts[-1]} workers over {counts[0]}", by_workers),
    ]


def _first_step(layers: int, workers: int) -> dict[str, Any]:
    """What the chief tells of its first step."""
    progress(f"growth: first step of {layers} layers on {workers} workers")
    command = [sys.executable, "-m", "autodist", "run", str(SCRIPTS / "growth_training.py"), "--workers", str(workers)]
    command += ["--strategy", "PSLoadBalancing", "--", str(layers)]
    told: dict[str, Any] = json.loads(_FIRST_STEP.findall(run_script(command, os.environ, _TIMEOUT_S))[0])
    return told


def _proportional(name: str, seconds: Mapping[int, float]) -> Row:
    """Whether time is proportional to size: the largest graph's by its size, over that of the last but one."""
    *_, middle, largest = seconds
    growth = (seconds[largest] / largest) / (seconds[middle] / middle)
    return row(f"{name}: {largest} over {middle}", [growth], "x", target=_MOST_PER_NODE)


def _ratio(name: str, seconds: Mapping[int, float]) -> Row:
    values = list(seconds.values())
    return row(name, [values[-1] / values[0]], "x", target=_MOST_BY_HOSTS)
