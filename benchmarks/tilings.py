"""How long it takes to find the layouts of all tensors of a step, and what the layouts found move beside rules.

The graphs are made of the layers' shapes, as those of the papers: WResNet-152 and VGG by batch and channels, ten layers
of LSTM unrolled over twenty steps. One is a traced step of 24 transformer layers, with as many nodes as BERT-large's.
All happens in one thread, so its CPU time is what a free core would need by the clock, whatever else the machine does.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import tensorflow as tf
from measuring import ROOT, Result, Row, progress, row
from training_steps import TOKENS, training_step, transformer

sys.path.insert(0, str(ROOT))

from autodist.cost.resharding import AxisTiles
from autodist.graph import TrainingGraph, VariableNames, capture
from autodist.resource_spec import Mesh, ResourceSpec
from autodist.search.tilings import (
    Baseline,
    CoarseGraph,
    FoundTiling,
    Method,
    Replicate,
    SearchOptions,
    alike_steps,
    baseline_tiling,
    find_tiling,
    plan_tiling,
)
from tests.search.tilings.layer_graphs import recurrent, vgg, wide_residual

_EIGHT = (2, 2, 2)
_RECURSIVE_S, _JOINT_S, _MANY_S, _STEP_S = 1.0, 5.0, 3.0, 3.0
_BATCH = 8
_GIB = 2.0**30
T = TypeVar("T")


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    blocks = (1, 1, 2, 1) if quick else (3, 8, 36, 3)
    residual, recurrence = wide_residual(8, 10, blocks), recurrent(128, 2 if quick else 10, 8192, 20)
    rows: list[Row] = []
    for name, graph, lengths, options, target in (
        ("WResNet-152-10 on 8, one cut after another", residual, _EIGHT, _recursive(), _RECURSIVE_S),
        ("WResNet-152-10 on 8, all cuts at once", residual, _EIGHT, _joint(), _JOINT_S),
        ("WResNet-152-10 on 8, one dim eight ways", residual, (8,), _joint(), _RECURSIVE_S),
        ("WResNet-152-10 on 64", wide_residual(64, 10, blocks), (4, 4, 4), _recursive(Replicate.FREE), _MANY_S),
        ("RNN-10-8K on 8", recurrence, _EIGHT, _recursive(), _RECURSIVE_S),
    ):
        progress(f"tilings: {name}")
        rows += _searched(name, graph, lengths, options, target)
    progress("tilings: a traced step")
    step = transformer_step(2 if quick else 24)
    rows.append(row("BERT-large on 8, from the traced step to the plan", _planned(step), "CPU s", target=_STEP_S))
    rows += _beside_rules(vgg(32))
    notes = (
        f"BERT-large: {len(step.graph_def.node)} nodes",
        f"WResNet: {len(residual.operators)} operators; RNN: {len(recurrence.operators)}, of which hashing leaves "
        f"{len(alike_steps(recurrence).graph.operators)}",
        "published: 8.3 s for WResNet-152 and 66.6 s for the RNN, one cut after another (Tofu, table 1)",
    )
    return Result("tilings", tuple(rows), notes)


def _recursive(replicate: Replicate = Replicate.NEVER) -> SearchOptions:
    return SearchOptions(Method.RECURSIVE, replicate, AxisTiles.DIGITS, polish=False)


def _joint() -> SearchOptions:
    return SearchOptions(Method.JOINT, Replicate.NEVER, AxisTiles.DIGITS)


def _searched(
    name: str, graph: CoarseGraph, lengths: tuple[int, ...], options: SearchOptions, target: float
) -> list[Row]:
    def search() -> FoundTiling:
        return find_tiling(alike_steps(graph).graph, lengths, options)

    seconds, found = zip(*(_timed(search) for _ in range(3)), strict=True)
    moved = [tiling.moved_bytes / _GIB for tiling in found]
    return [row(f"{name}: search", seconds, "CPU s", target=target), row(f"{name}: moved in a step", moved, "GiB")]


def transformer_step(layers: int) -> TrainingGraph:
    """The traced step of so many transformer layers."""
    specs = [tf.TensorSpec([_BATCH, TOKENS], tf.int32), tf.TensorSpec([_BATCH], tf.int32)]
    return capture(training_step(transformer(layers)), specs, VariableNames()).graph


def _planned(step: TrainingGraph) -> list[float]:
    """The time of the whole search, of a step of which nothing is known but its nodes."""
    mesh = Mesh.of(ResourceSpec.local(workers=8)).flat()
    steps = [replace(step, batch_size=_BATCH) for _ in range(3)]
    return [_timed(functools.partial(plan_tiling, one, mesh))[0] for one in steps]


def _timed(search: Callable[[], T]) -> tuple[float, T]:
    began = time.process_time()
    found = search()
    return time.process_time() - began, found


def _beside_rules(graph: CoarseGraph) -> list[Row]:
    best = find_tiling(graph, _EIGHT, SearchOptions(tiles=AxisTiles.DIGITS)).moved_bytes
    rules = {rule: baseline_tiling(graph, _EIGHT, rule, AxisTiles.DIGITS).moved_bytes for rule in Baseline}
    return [
        row(f"VGG, batch 32 on 8: of what `{rule.value}` moves", [best / moved], "x", target=1.0)
        for rule, moved in rules.items()
    ]
