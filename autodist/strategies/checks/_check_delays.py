"""Checks of the staleness of gradients that are all-reduced: these are applied some steps later on all workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from autodist.strategies._asynchronous_uses import asynchronous_uses
from autodist.strategies._problem import Problem, differing

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy

_MOST = 1_000_000
"""The most steps: more than memory has room for, since each keeps its gradients until they are applied."""


def check_delays(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield staleness of all-reduced gradients that a strategy or a step has no place for."""
    delays = {name: synchronizer.delay for name, synchronizer in strategy.synchronizers}
    for name, delay in delays.items():
        if not 0 <= delay <= _MOST:
            reason = "it counts steps, whose gradients are kept"
            yield Problem(name, "staleness", f"{delay}", f"0 to {_MOST}", reason)
    late = [name for name, delay in delays.items() if delay > 0]
    if not late:
        return
    pairs = [(f"{delay}" if delay else "none", name) for name, delay in delays.items()]
    reason = "a step applies all gradients of an earlier step together, and all of them are all-reduced"
    yield from differing("staleness of all-reduced gradients", pairs, "one for all variables", reason)
    if graph.graph_def is None or spec.world_size == 1:
        return
    uses = asynchronous_uses(graph)
    for name in late:
        for use in uses.get(name, ()):
            yield Problem(name, "staleness", f"{delays[name]}", "0", f"{use}, but it is applied steps later")
