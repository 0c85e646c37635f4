"""How well the simulator orders tilings: drawn ones, measured on four emulated hosts, beside what it expects of them.

Of each model, a search measures well-known strategies and the drawn tilings in rounds that alternate. Kendall's tau is
1 if expected and measured times have the same order, and 0 if their orders have nothing to do with each other: a tenth
of the pairs in the wrong order is a tau of 0.8.
"""

from __future__ import annotations

import glob
import random
import tempfile
from math import prod
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress
from searched import KNOWN, Searched

from autodist.graph import TrainingGraph, Variable
from autodist.search import TrialStore, graph_of
from autodist.testing import EmulatedCluster

_HOSTS, _RATE = 4, "1gbit"
_CASES = (("perceptron", 8), ("vgg", 8), ("words", 8))
_TILINGS = 14
_LEAST_ELEMENTS = 1 << 14
_WHOLE = 0.25
"""How likely a weight stays whole."""
_MOST_WRONG = 0.1
_ROUNDS = 2


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
    arguments = (model, f"{batch_size}", "2", "4", "found.json")
    searched = Searched(cluster, directory / f"{model}.db", SCRIPTS / "tiled_training.py", arguments, batch_size)
    searched.search(1, rounds=1)
    with TrialStore(searched.store) as opened:
        graph = graph_of(opened, opened.studies()[0])
    searched.search(KNOWN + count, rounds=_ROUNDS, also=_drawn(graph, count))
    name = f"{model}, batches of {batch_size}"
    return searched.rows(name, "tilings", _MOST_WRONG, lambda trial: trial.strategy.has_tiles)


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
