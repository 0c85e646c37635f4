"""How well the simulator orders tilings: drawn ones, measured on four emulated hosts, beside what it expects of them.

Of each model, a search measures well-known strategies and the drawn tilings in rounds that alternate. Kendall's tau is
1 if expected and measured times have the same order, and 0 if their orders have nothing to do with each other: a tenth
of the pairs in the wrong order is a tau of 0.8.
"""

from __future__ import annotations

import glob
import random
import sys
import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path

import numpy as np
from measuring import SCRIPTS, Result, Row, progress, row
from on_hosts import by_name

from autodist.graph import TrainingGraph, Variable
from autodist.resource_spec import to_yaml
from autodist.search import Trial, TrialStore, graph_of
from autodist.search.store import floor_of
from autodist.simulator import Domain, EventSimulator, MeasuredStrategies, accuracy_of
from autodist.testing import EmulatedCluster

_HOSTS, _RATE = 4, "1gbit"
_CASES = (("perceptron", 8), ("vgg", 8), ("words", 8))
_TILINGS = 14
_LEAST_ELEMENTS = 1 << 14
_WHOLE = 0.25
"""How likely a weight stays whole."""
_MOST_WRONG = 0.1
_ROUNDS = 2
_KNOWN = 8
"""How many strategies a search measures in any case, before those that it is given."""
_TIMEOUT_S = 1800.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory, EmulatedCluster(_HOSTS, _RATE, binds=[Path(directory)]) as cluster:
        for model, batch_size in _CASES[:1] if quick else _CASES:
            progress(f"{model}, batches of {batch_size}")
            rows += _case(cluster, Path(directory), model, batch_size, 5 if quick else _TILINGS)
    notes = (
        f"{_HOSTS} emulated hosts with {_RATE} each; tilings of each model, drawn by variable, in {_ROUNDS} rounds",
        "the simulator of events with the constants that AutoDist comes with, and a step without communication",
    )
    return Result("tile_orders", tuple(rows), notes)


def _case(cluster: EmulatedCluster, directory: Path, model: str, batch_size: int, count: int) -> list[Row]:
    store = directory / f"{model}.db"
    _search(cluster, store, model, batch_size, rounds=1)
    with TrialStore(store) as opened:
        graph = graph_of(opened, opened.studies()[0])
    _search(cluster, store, model, batch_size, rounds=_ROUNDS, also=_drawn(graph, count))
    with TrialStore(store) as opened:
        [study] = opened.studies()
        trials = [trial for trial in opened.trials(study) if trial.step_s is not None and trial.strategy.has_tiles]
        floor_s = floor_of(opened, [study])
        domain = Domain.of(graph, by_name(cluster), batch_size=batch_size, profile=study.profile, floor_s=floor_s)
    measured = MeasuredStrategies.of(domain, [one.strategy for one in trials], [one.step_s or 0.0 for one in trials])
    expected = EventSimulator().score(measured.table, domain, len(measured))
    _print(trials, expected)
    found = accuracy_of(expected, measured.step_s)
    name, slowest = f"{model}, batches of {batch_size}", float(measured.step_s.max() / measured.step_s.min())
    return [
        row(f"{name}: Kendall's tau of {len(trials)} tilings", [found.kendall_tau], ""),
        row(f"{name}: pairs in the wrong order", [(1 - found.kendall_tau) / 2], "", target=_MOST_WRONG),
        row(f"{name}: the one that is expected to be best, by the fastest", [1 + found.regret], "x"),
        row(f"{name}: the slowest, by the fastest", [slowest], "x"),
        row(f"{name}: median error of expected times", [100 * found.error], "%"),
    ]


def _print(trials: Sequence[Trial], expected: np.ndarray) -> None:
    for trial, time_s in sorted(zip(trials, expected, strict=True), key=lambda pair: pair[1]):
        both = f"expected {1e3 * time_s:7.1f} ms, measured {1e3 * (trial.step_s or 0.0):7.1f} ms"
        print(f"  {both}: {trial.strategy.builder[:150]}", file=sys.stderr, flush=True)


def _drawn(graph: TrainingGraph, count: int) -> list[str]:
    """Builders of tilings in which the dim of each large weight is drawn, of all hosts or of two groups."""
    numbers, found = random.Random(0), []
    while len(found) < count:
        parts = numbers.choice((_HOSTS, _HOSTS, _HOSTS // 2))
        rules = [f"{glob.escape(v.name)}={_dim(v, parts, numbers)}" for v in graph.trainable]
        if all(rule.endswith("=whole") for rule in rules):
            continue
        groups = f", groups={_HOSTS // parts}" if parts < _HOSTS else ""
        found.append(f"Tiled(dims={tuple(rules)!r}{groups})")
    return found


def _dim(variable: Variable, parts: int, numbers: random.Random) -> int | str:
    dims = [dim for dim, size in enumerate(variable.shape) if size >= parts]
    if prod(variable.shape) < _LEAST_ELEMENTS or not dims or numbers.random() < _WHOLE:
        return "whole"
    return numbers.choice(dims)


def _search(
    cluster: EmulatedCluster, store: Path, model: str, batch_size: int, *, rounds: int, also: Sequence[str] = ()
) -> None:
    spec = store.with_suffix(".yml")
    spec.write_text(to_yaml(by_name(cluster)))
    command = [sys.executable, "-m", "autodist", "search", str(SCRIPTS / "tiled_training.py"), "--spec", str(spec)]
    command += ["--store", str(store), "--simulator", "none", "--searcher", "random", "--finalists", "0", "--continue"]
    command += [
        "--trials",
        f"{_KNOWN + len(also) if also else 1}",
        "--rounds",
        f"{rounds}",
        "--allow-open-ports",
        "--hopeless",
        "50",
    ]
    command += ["--warm-up", "2", "--iterations", "8"]  # whole weights take seconds for a step
    command += [word for builder in also for word in ("--also", builder)]
    kept = {"AUTODIST_CACHE": str(store.parent / "cache")}
    command += ["--", model, str(batch_size), "2", "4", "found.json"]
    done = cluster.run("head", command, env=kept, timeout_s=_TIMEOUT_S)
    if done.returncode != 0:
        raise RuntimeError(f"searching for {model} ended with {done.returncode}:\n{done.stderr[-3000:]}")
